"""Failures at the same time, late failures, and failures that no step expects."""

from __future__ import annotations

import asyncio
import threading
import time
from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from virtual_time import VirtualTimeLoop
from workflow_examples import played

from agentnb import Agent, Run, ToolCall, Workflow
from agentnb.core.log.work_events import StepFinished
from agentnb.errors import SettingsError, WorkflowError, WorkflowProblems
from agentnb.models import ScriptedModel
from agentnb.workflow.running.failed_together import failed_together

CALLS: Counter[str] = Counter()


async def bad(after: float = 1) -> str:
    """Fail."""
    CALLS["bad"] += 1
    await asyncio.sleep(after)
    raise ValueError(f"bad after {after:g} s")


async def ok() -> str:
    """Do it."""
    CALLS["ok"] += 1
    return "ok"


async def goes_on() -> str:
    """Swallow a cancellation."""
    CALLS["goes_on"] += 1
    try:
        await asyncio.sleep(100)
    except asyncio.CancelledError:
        await asyncio.sleep(3)
    return "done all the same"


async def fails_when_cancelled() -> str:
    """Fail instead of ending."""
    CALLS["fails_when_cancelled"] += 1
    try:
        await asyncio.sleep(100)
    except asyncio.CancelledError:
        raise ValueError("not now") from None
    return "done"


def steps(text: str, *tools: Callable[..., Any]) -> Workflow:
    return Workflow.from_yaml(f"workflow:\n{text}\n", tools=tools or (bad, ok, goes_on, fails_when_cancelled))


def raised(workflow: Workflow, **settings: Any) -> WorkflowError:
    with pytest.raises(WorkflowError) as caught, asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        runner.run(workflow.run(show=False, **settings))
    return caught.value


def statuses(run: Run) -> dict[str, str]:
    return {name: record.status for name, record in run.step_records.items()}


@pytest.mark.req("R4.22", "K4.8")
def test_first_failure_of_a_block_is_raised_with_the_others() -> None:
    block = """
  - id: p
    type: parallel
    retry: {max_attempts: ATTEMPTS, initial_delay_seconds: 0}
    steps:
      - {id: x, type: tool, name: bad}
      - {id: inner, type: parallel, steps: [{id: y, type: tool, name: bad, args: {after: 1.0}}, {id: o, type: tool, name: ok}]}
      - {id: late, type: tool, name: bad, args: {after: 9}}
"""
    for attempts in ("0", "1"):
        error = raised(steps(block.replace("ATTEMPTS", attempts)))
        assert isinstance(error.run, Run)
        failed = [event.step for event in error.run.events if isinstance(event, StepFinished) and event.status == "failed"]
        first, *others = [one for one in failed if one in ("p/x", "p/inner/y")][-2:]
        assert error.what == f"step {first}: ValueError: bad after 1 s"
        assert [(error_beside.id, error_beside.error) for error_beside in error.others] == [
            (others[0], "ValueError: bad after 1 s")
        ]
        assert statuses(error.run)["p/late"] == "cancelled"
    both = raised(steps("  - {id: p, type: parallel, steps: [{id: x, type: tool, name: bad}, {id: y, type: tool, name: bad}]}"))
    assert isinstance(both.run, Run)
    order = [event.step for event in both.run.events if isinstance(event, StepFinished) and event.status == "failed"]
    assert ([both.what.split(":")[0], *(error_beside.id for error_beside in both.others)], len(order)) == (
        [f"step {order[0]}", order[1]],
        3,
    )
    alone = raised(steps("  - {id: e, type: tool, name: bad, on_error: {continue: 1}}\n  - {id: x, type: tool, name: bad}"))
    assert alone.others == ()
    text = "  max_loop_iterations: 2\n  steps: [{id: x, type: tool, name: bad, on_error: {goto: x}}]"
    looping = raised(steps(text))
    assert isinstance(looping.run, Run) and looping.run.stop_reason == "max_loop_iterations"
    assert failed_together(looping.run) == (), "the failure was handled"


def test_no_step_runs_after_one_that_swallowed_cancellation(subtests: pytest.Subtests) -> None:
    for child, call, status in [
        ("{id: y, type: tool, name: goes_on}", "goes_on", "completed"),
        ("{id: y, type: tool, name: fails_when_cancelled, retry: {max_attempts: 3}}", "fails_when_cancelled", "cancelled"),
        (
            '{type: condition, condition: "true", true: [{id: y, type: tool, name: goes_on}, {id: z, type: tool, name: ok}]}',
            "goes_on",
            "completed",
        ),
    ]:
        with subtests.test(child):
            CALLS.clear()
            run = played(steps(f"  - {{id: p, type: parallel, steps: [{{id: x, type: tool, name: bad}}, {child}]}}"), "", {})
            assert run.error is not None and run.error.message == "step p/x: ValueError: bad after 1 s"
            assert {"bad": 1, call: 1} == CALLS
            assert statuses(run)["p/y"] == status


def test_step_that_waits_to_retry_is_cancelled_with_its_block() -> None:
    run = played(
        steps("""
  - id: p
    type: parallel
    steps:
      - {id: x, type: tool, name: bad, args: {after: 3}}
      - {id: y, type: tool, name: bad, retry: {max_attempts: 3, initial_delay_seconds: 50}}
"""),
        "",
        {},
    )
    assert statuses(run) == {"p": "failed", "p/x": "failed", "p/y": "cancelled"}


def test_failed_block_can_continue_with_a_substitute_value() -> None:
    run = played(
        steps("""
  - {id: p, type: parallel, on_error: {continue: none}, steps: [{id: x, type: tool, name: bad}, {id: y, type: tool, name: ok}]}
  - {id: m, type: map, over: [1, 2], on_error: {continue: [7]}, step: {type: tool, name: bad}}
  - {id: z, type: tool, name: ok}
"""),
        "",
        {},
    )
    assert run.steps["p"] == {"output": "none", "runs": [{"output": "none", "attempts": 1}]}
    assert run.steps["m"]["output"] == [7] and run.text == "ok"


def test_step_of_a_map_cannot_be_a_condition() -> None:
    both = "{type: condition, condition: '{{ $item > 1 }}', true: [{id: a, type: tool, name: ok}]}"
    with pytest.raises(WorkflowProblems, match="the step of a map cannot be a condition"):
        steps(f"  - {{id: m, type: map, over: [1, 2], step: {both}}}")
    block = f"{{type: parallel, steps: [{both}]}}"
    run = played(steps(f"  - {{id: m, type: map, over: [1, 2], step: {block}}}"), "", {})
    first, second = run.steps["m"]["output"]
    assert list(first) == ["condition_1"] and list(second) == ["condition_1", "a"]


def test_sync_tools_run_one_by_one_on_the_waiting_thread() -> None:
    threads: list[str] = []
    busy = threading.Lock()

    def look() -> str:
        """Look."""
        assert busy.acquire(blocking=False), "another function is still running"
        threads.append(threading.current_thread().name)
        time.sleep(0.01)
        busy.release()
        return "seen"

    agents = {name: Agent(ScriptedModel([ToolCall("look", {}), "Done."]), tools=[look], name=name) for name in ("a", "b")}
    text = """
workflow:
  - id: p
    type: parallel
    steps: [{id: x, type: tool, name: look}, {id: y, type: agent, name: a}, {id: z, type: agent, name: b}]
"""
    run = Workflow.from_yaml(text, tools=[look], agents=agents).run_sync(show=False)
    assert run.status == "completed" and threads == [threading.current_thread().name] * 3


def test_surrogates_and_odd_values_are_treated_as_data() -> None:
    async def half() -> dict[str, Any]:
        """Half a character."""
        return {"a": "half \ud83d", "n": [1]}

    async def echo(x: Any) -> Any:
        """Return it."""
        return x

    text = """
inputs: {when: null}
workflow:
  - {id: h, type: tool, name: half}
  - {id: e, type: tool, name: echo, args: {x: "{{ $steps.h.output.n[0] }}"}}
  - {id: i, type: tool, name: echo, args: {x: "{{ $inputs.when }}"}}
"""
    workflow = Workflow.from_yaml(text, tools=[half, echo])
    run = played(workflow, "", {}, inputs={"when": datetime(2026, 1, 2, tzinfo=UTC)})
    assert (run.steps["h"]["output"], run.steps["e"]["output"]) == ({"a": "half \ufffd", "n": [1]}, 1)
    assert run.steps["i"]["output"] == "2026-01-02T00:00:00Z" == run.settings["inputs"]["when"]
    with pytest.raises(SettingsError, match="The inputs cannot be written as JSON"):
        played(workflow, "", {}, inputs={"when": object()})


def test_nested_workflow_files_are_checked_before_anything_runs(tmp_path: Path, subtests: pytest.Subtests) -> None:
    (tmp_path / "good.yaml").write_text("inputs: {n: 1}\nworkflow: [{id: g, type: tool, name: ok}]\n")
    (tmp_path / "bad.yaml").write_text("workflow:\n  - {id: x, type: nope}\n")
    (tmp_path / "deep.yaml").write_text("workflow:\n  - {id: y, type: workflow, file: bad.yaml}\n")
    (tmp_path / "round.yaml").write_text("workflow:\n  - {id: z, type: workflow, file: outer.yaml}\n")
    outer = tmp_path / "outer.yaml"
    for file, wrong in [
        ("nowhere.yaml", "outer.yaml:3: workflow step.1.: file: There is no file .*nowhere.yaml"),
        ("bad.yaml", "unknown type"),
        ("deep.yaml", "deep.yaml:2: .*bad.yaml:2: workflow step.* unknown type"),
        ("good.yaml, inputs: {m: 2}", "no input m"),
        ("round.yaml", "runs itself endlessly"),
        ("good.yaml", ""),
    ]:
        with subtests.test(file):
            CALLS.clear()
            outer.write_text(
                f"workflow:\n  - {{type: tool, name: ok}}\n  - {{id: n, type: workflow, file: {file}}}\n", encoding="utf-8"
            )
            if not wrong:
                assert played(Workflow.from_yaml(outer, tools=[ok]), "", {}).status == "completed"
                continue
            with pytest.raises(SettingsError, match=wrong):
                Workflow.from_yaml(outer, tools=[ok]).run_sync(show=False)
            assert CALLS["ok"] == 0
