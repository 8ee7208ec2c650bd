"""Usage of sub-agents in runs of other products: included in the run, and counted once in a sum."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from agentnb import Store, import_traces, load_trace, load_traces, tables
from agentnb.detect.run import Run
from agentnb.rerun.expect import outcomes_of
from agentnb.rerun.replay import replay

FILES = Path(__file__).parent / "formats/files"


def trajectory(name: str, costs: list[float | None], total: float | None, inner: list[dict[str, Any]]) -> dict[str, Any]:
    steps: list[dict[str, Any]] = [{"step_id": 1, "source": "user", "message": f"Work, {name}."}]
    for number, cost in enumerate(costs, 2):
        metrics = {"prompt_tokens": 100, "completion_tokens": 10} | ({} if cost is None else {"cost_usd": cost})
        steps.append({"step_id": number, "source": "agent", "message": f"Part {number}.", "metrics": metrics})
    about = {"schema_version": "ATIF-v1.6", "session_id": name, "agent": {"name": name, "version": "1"}, "steps": steps}
    sums = {} if total is None else {"final_metrics": {"total_cost_usd": total}}
    return about | sums | ({"subagent_trajectories": inner} if inner else {})


CASES: dict[str, tuple[dict[str, Any], list[tuple[float | None, float | None]]]] = {
    "each reply has its cost": (trajectory("a", [0.1], None, [trajectory("b", [0.2], None, [])]), [(0.3, 0.1), (0.2, 0.2)]),
    "a cost is unknown": (trajectory("a", [0.1], None, [trajectory("b", [None], None, [])]), [(None, 0.1), (None, None)]),
    "the total is all that is known": (
        trajectory("a", [None], 0.5, [trajectory("b", [None], None, [])]),
        [(0.5, 0.5), (None, None)],
    ),
    "the total has parts": (
        trajectory("a", [None], 0.5, [trajectory("b", [None], 0.3, [trajectory("c", [0.1], None, [])])]),
        [(0.5, 0.2), (0.3, 0.2), (0.1, 0.1)],
    ),
}


def costs(run: Run) -> tuple[Any, Any]:
    return tuple(None if cost is None else pytest.approx(cost) for cost in (run.cost, run.own_cost))


def test_usage_of_a_run_includes_its_sub_agents(tmp_path: Path, subtests: pytest.Subtests) -> None:
    for number, (name, (record, expected)) in enumerate(CASES.items()):
        path = tmp_path / f"{number}.json"
        path.write_text(json.dumps(record))
        with subtests.test(name):
            runs = load_traces(path)
            assert [costs(run) for run in runs] == expected
            assert [run.usage.input for run in runs] == [100 * count for count in range(len(runs), 0, -1)]
            assert {run.own_usage.input for run in runs} == {100}
            table, used = tables.runs(path), tables.usage(path)
            assert table.own_input_tokens.sum() == used.input_tokens.sum() == 100 * len(runs) and len(used) == len(runs)
            known = [own for _, own in expected if own is not None]
            assert table.own_cost.sum() == pytest.approx(sum(known))
            (held,) = outcomes_of(runs[0], [f"input_tokens == {100 * len(runs)}"])
            assert held.holds and replay(runs[0]).first_divergence is None
            store = Store(tmp_path / f"store-{number}")
            import_traces(path, store)
            assert load_trace(store.path(runs[0].id)) == runs[0]


def test_usage_of_foreign_sub_agents_counts_in_their_run() -> None:
    for name, own, whole in (
        ("claude_stream/max_turns.jsonl", (0.0421, 4220), (0.0421, 8440)),
        ("otel_genai/agent-with-subagent.jsonl", (None, 231), (None, 243)),
    ):
        run = load_trace(FILES / name)
        assert ((run.own_cost, run.own_usage.input), (run.cost, run.usage.input)) == (own, whole)
