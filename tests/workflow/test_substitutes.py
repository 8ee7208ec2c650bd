"""Failed steps with a substitute: completed, marked, with their error."""

from __future__ import annotations

from pathlib import Path

from agentnb import Workflow, load_trace, save_trace, tables
from agentnb.core.log.work_events import StepFinished
from agentnb.display.card.text import run_text
from agentnb.display.graph.workflow_text import graph_lines
from agentnb.display.texts.event_lines import event_line
from agentnb.workflow.files.declared_files import drawing_of
from agentnb.workflow.graph.node_states import node_states

FLOW = """
workflow:
  - {id: prices, type: tool, name: fetch, retry: {max_attempts: 1, initial_delay_seconds: 0.01}, on_error: {continue: none}}
  - {id: report, type: tool, name: count}
"""


def fetch() -> str:
    """Fetch the prices."""
    raise TimeoutError("no answer from the server")


def count() -> int:
    """Count."""
    return 3


def test_step_with_a_substitute_is_marked_and_names_its_error(tmp_path: Path) -> None:
    workflow = Workflow.from_yaml(FLOW, tools=[fetch, count])
    run = workflow.run_sync("Go", show=False)
    again = load_trace(save_trace(run, tmp_path / "run.jsonl"))
    for one in (run, again):
        prices, report = one.step_records["prices"], one.step_records["report"]
        assert (one.status, prices.status, prices.output, prices.is_substituted) == ("completed", "completed", "none", True)
        assert "no answer from the server" in prices.error and not report.is_substituted
        rows = tables.steps(one).query("status == 'completed'").set_index("step")
        assert rows.substituted.to_dict() == {"prices": True, "report": False}
        assert "no answer from the server" in rows.error["prices"]
    retried = tables.steps(run).query("status == 'retried'")
    assert len(retried) and not retried.substituted.any()  # failed without a substitute
    graph = drawing_of(workflow.declared)
    states = node_states(graph, run)
    assert states["prices"].is_substituted and not states["report"].is_substituted
    first, *_, last = [line for line in graph_lines(graph, states) if line[0] in "▲✓"]
    assert first.startswith("▲ prices") and "used a substitute" in first and "no answer from the server" in first
    assert last.startswith("✓ report") and "substitute" not in last
    lines = [event_line(event) for event in run.events if isinstance(event, StepFinished)]
    assert "step prices used a substitute" in lines[0] and "no answer" in lines[0] and "step report completed" in lines[1]
    assert "used a substitute" in run_text(run)
