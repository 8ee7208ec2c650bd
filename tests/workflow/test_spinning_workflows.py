"""Endless workflows, and steps that ignore their timeout."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import pytest
from asserted_sentences import Snapshot
from virtual_time import by_itself
from waiting import wait_until

from agentnb import Agent, Run, Store, ToolCall, Workflow
from agentnb.core.log.work_events import StepStarted
from agentnb.core.schema.json_schema import is_pattern, matches
from agentnb.errors import WorkflowProblems
from agentnb.models import ScriptedModel
from agentnb.runtime.steps.step_failures import StepFailure

MANY = "max_loop_iterations: 300000\n"  # far more than the time limit allows, and finite if the limit fails
SPINNING = {
    "gotos in a circle": f"{MANY}workflow: [{{goto: 1}}, {{goto: 0}}]",
    "a condition that goes to itself": f"{MANY}workflow: [{{id: x, type: condition, condition: 'true', true: {{goto: x}}}}]",
    "a task that goes to itself": f"{MANY}stage: {{main: {{t: {{post: {{n: 1}}, goto: {{task: t}}}}}}}}",
}


def fine() -> str:
    """Do it."""
    return "fine"


def test_time_limit_and_stop_end_endlessly_looping_workflows(subtests: pytest.Subtests) -> None:
    for name, text in SPINNING.items():
        with subtests.test(name):
            run = Workflow.from_yaml(f"{text}\nlimits: {{max_seconds: 0.02}}").run_sync(show=False)
            assert run.stop_reason == "max_seconds"
        with subtests.test(f"{name}, stopped"):
            live = Workflow.from_yaml(text).start()
            wait_until(lambda live=live: live.run.back_edges)
            live.stop()
            assert live.result().stop_reason == "cancelled"


def test_retry_patterns_are_checked_and_match_in_bounded_time(snapshot: Snapshot) -> None:
    assert [is_pattern(one) for one in ("(a+)+$", "(?i)timed.out|busy", r"\bfoo", "(", "a**", "(?P=x)")] == [True] * 3 + [
        False
    ] * 3
    assert matches(r"\Aab\z", "ab")  # in case another engine would hang in the next lines
    failure = StepFailure("a" * 35 + "b: Timed out")
    assert [failure.is_retried((one,)) for one in ("/(a+)+$/", "/(?i)timed out$/", "/^b/")] == [False, True, False]
    assert not matches(r"^(?=a)(a|aa)+\1c", "a" * 60)
    with pytest.raises(WorkflowProblems, check=snapshot.worded):
        Workflow.from_yaml("workflow: [{type: tool, name: f, retry: {max_attempts: 1, on: [/(a/]}}]")


def test_step_that_swallows_its_timeout_is_abandoned(subtests: pytest.Subtests) -> None:
    late: list[str] = []

    async def deaf() -> str:
        """Swallow a cancellation."""
        try:
            await asyncio.sleep(100)
        except asyncio.CancelledError:
            await asyncio.sleep(100)
        late.append("deaf")
        return "late"

    step = "{id: s, type: tool, name: deaf}"
    for name, text in {
        "a step": "{id: s, type: tool, name: deaf, timeout: 1, on_error: {continue: none}}",
        "a block": f"{{id: b, type: parallel, timeout: 1, steps: [{step}], on_error: {{continue: none}}}}",
        "a map": f"{{id: m, type: map, over: [1], timeout: 1, step: {step}, on_error: {{continue: none}}}}",
    }.items():
        with subtests.test(name):
            workflow = Workflow.from_yaml(f"workflow: [{text}, {{id: f, type: tool, name: fine}}]", tools=[deaf, fine])

            async def go(workflow: Workflow = workflow) -> tuple[Run, list[str], int]:
                run = await workflow.run(show=False)
                before, count = list(late), len(run.events)
                await asyncio.sleep(200)
                return run, before, count

            late.clear()
            run, before, count = by_itself(go())
            assert run.status == "completed" and run.steps["f"]["output"] == "fine" and before == []
            assert late == ["deaf"] and len(run.events) == count


def test_agent_of_an_abandoned_step_makes_no_more_calls(tmp_path: Path) -> None:
    async def deaf() -> str:
        """Swallow a cancellation."""
        try:
            await asyncio.sleep(100)
        except asyncio.CancelledError:
            await asyncio.sleep(50)
        return "late"

    model, store = ScriptedModel([ToolCall("deaf"), "Too late"]), Store(tmp_path)
    text = "workflow: [{id: s, type: agent, name: a, timeout: 1, on_error: {continue: none}}, {id: f, type: tool, name: fine}]"
    workflow = Workflow.from_yaml(text, agents={"a": Agent(model, tools=[deaf])}, tools=[fine])

    async def go() -> Run:
        run = await workflow.run(show=False, store=store)
        await asyncio.sleep(100)
        return run

    run = by_itself(go())
    nested = store.load(run.step_records["s"].nested)
    assert (run.status, nested.status, len(nested.rounds)) == ("completed", "cancelled", 1)


def test_timeout_interrupts_a_sync_function_on_the_main_thread() -> None:
    ends: list[str] = []

    def slow() -> str:
        """Take longer than it may."""
        try:
            time.sleep(20)
        except KeyboardInterrupt:
            ends.append("interrupted")
            raise
        return "late"

    steps = "{id: s, type: tool, name: slow, timeout: 0.02, on_error: {continue: none}}, {id: f, type: tool, name: fine}"
    run = Workflow.from_yaml(f"workflow: [{steps}]", tools=[slow, fine]).run_sync(show=False)
    assert (run.status, run.steps["f"]["output"], ends) == ("completed", "fine", ["interrupted"])
    assert [event.step for event in run.events if isinstance(event, StepStarted)] == ["s", "f"]
