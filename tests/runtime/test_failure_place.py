"""The failure location in a run's log: component, stage and tool."""

from __future__ import annotations

import json

import pytest
from planned_runs import HARBOURS, blocked_run, planner_run
from run_builder import Fact, RunBuilder, answered, begun, blocked_call, called
from scripted_runs import FullDisk, agent_of, even_failed, look

from agentnb import Run, ToolCall, tables
from agentnb.core.log import events as e
from agentnb.core.log import work_events as w
from agentnb.core.log.wire import decode, encode
from agentnb.core.messages import Message, Text
from agentnb.errors import ProviderTrouble
from agentnb.runtime.failure_place import failure_place, place_of_verdict

LOOK = called("look", "c1")
LISTEN = called("listen", "c2")


def logged(run: Run) -> tuple[str, str, str, str]:
    """Return the failure location of a run's error in its log."""
    (event,) = [event for event in run.events if isinstance(event, e.ErrorRaised)]
    return event.where, event.component, event.stage, event.tool


def empty_twice() -> Run:
    return agent_of("", "").run_sync("go")


@pytest.mark.req("R3.12", "R3.43")
def test_error_is_logged_with_its_component_stage_and_tool(subtests: pytest.Subtests) -> None:
    down = ProviderTrouble("scripted: down", "Try again later")
    cases = {
        "model": (lambda: agent_of(down).run_sync("go"), ("model", "loop", "model_call", "")),
        "model of one's own": (lambda: agent_of(RuntimeError("boom")).run_sync("go"), ("model", "loop", "model_call", "")),
        "reply": (empty_twice, ("reply", "loop", "reply", "")),
        "store, in a tool": (
            lambda: agent_of(ToolCall("look"), tools=[look]).run_sync("go", store=FullDisk("ToolStarted")),
            ("store", "store", "tool_call", "look"),
        ),
        "store, at the start": (
            lambda: agent_of("Well.").run_sync("go", store=FullDisk("RunStarted")),
            ("store", "store", "start", ""),
        ),
        "planner": (lambda: planner_run(HARBOURS, down), ("reply", "workflow", "planning", "")),
        "plan": (blocked_run, ("reply", "workflow", "plan_execution", "")),
    }
    for name, (make, place) in cases.items():
        with subtests.test(name):
            run = even_failed(make)
            assert logged(run) == place
            fields = json.loads(tables.events(run)[lambda frame: frame.kind == "error_raised"].fields.item())
            assert [fields.get(field, "") for field in ("where", "component", "stage", "tool")] == [*place]


def replied(*parts: ToolCall | Text, **fields: str) -> Fact:
    return e.ModelReplied, {"message": Message("assistant", parts), **fields}


def task(step: str, agent: str = "") -> Fact:
    return w.StepStarted, {"step": step, "step_kind": "task", "agent": agent}


def failed(step: str, error: str = "down", status: str = "failed") -> Fact:
    return w.StepFinished, {"step": step, "error": error, "status": status}


def of_step(facts: list[Fact], step: str) -> list[Fact]:
    """Return the failure location of a call made by this step."""
    return [(kind, {**fields, "step": step}) for kind, fields in facts]


STARTED = e.ToolStarted, {"call": LOOK}
OF_STEP = e.ToolStarted, {"call": LISTEN, "step": "plan/0"}
WHILE_IT_WORKS: dict[str, tuple[list[Fact], tuple[str, str]]] = {
    "nothing": ([], ("start", "")),
    "no reply": (begun(0), ("model_call", "")),
    "a reply that broke off": ([*begun(0), replied(Text("I"), stop_reason="broken_off")], ("model_call", "")),
    "a summary": ([*begun(0), (e.CompactionStarted, {"why": "share", "messages": 3})], ("compaction", "")),
    "a call that runs": ([*begun(0), replied(LOOK), STARTED], ("tool_call", "look")),
    "two calls that run": (
        [*begun(0), replied(LOOK, LISTEN), STARTED, (e.ToolStarted, {"call": LISTEN})],
        ("tool_call", ""),
    ),
    "a call that waits": (
        [*begun(0), replied(LOOK), (e.ToolAdmitted, {"call": LOOK, "reason": "approve"})],
        ("", ""),
    ),
    "a call that has ended": ([*begun(0), replied(LOOK), *answered(LOOK)], ("", "")),
    "between rounds": ([*begun(0), replied(Text("Well.")), (e.RoundFinished, {"index": 0, "status": "success"})], ("", "")),
    "a call of a step, in a call": ([*begun(0), replied(LOOK), STARTED, task("plan/0"), OF_STEP], ("tool_call", "listen")),
    "a reply after a step that failed": ([*begun(0), task("plan/0"), failed("plan/0"), *begun(1)], ("model_call", "")),
    "a step": ([task("a"), task("a/b")], ("step", "")),
    "a step that plans": ([task("plan", "llm/core:plan"), task("plan/reply-1")], ("planning", "")),
    "a step that runs a plan": ([task("exec", "llm/exec:run_plan")], ("plan_execution", "")),
    "a step after one that failed": ([task("a"), failed("a"), task("plan", "llm/core:plan")], ("planning", "")),
}


@pytest.mark.req("R3.12")
def test_failure_place_is_taken_from_the_open_work(subtests: pytest.Subtests) -> None:
    for name, (facts, (stage, tool)) in WHILE_IT_WORKS.items():
        with subtests.test(name):
            found = failure_place(RunBuilder().extend(*facts).run, "loop")
            assert found == {"component": "loop", "stage": stage, "tool": tool}


PLANS, EXECUTES = "llm/core:plan", "llm/exec:run_plan"
RAN = of_step(answered(LISTEN, is_error=True, error_code="tool_error"), "a/b")
AT_ITS_END: dict[str, tuple[list[Fact], tuple[str, str]]] = {
    "words": ([*begun(0), replied(Text("Well."))], ("reply", "")),
    "a step": ([task("a"), failed("a")], ("step", "")),
    "a tool in a block": ([task("a"), task("a/b"), *RAN, failed("a/b"), failed("a")], ("tool_call", "listen")),
    "a tool that was not run": (
        [task("a"), task("a/b"), *of_step(blocked_call(LISTEN), "a/b"), failed("a/b"), failed("a")],
        ("tool_call", ""),
    ),
    "a block with an error of its own": ([task("a"), task("a/b"), *RAN, failed("a/b"), failed("a", "other")], ("step", "")),
    "a block whose other steps were cancelled": (
        [task("a"), task("a/b"), task("a/c"), *RAN, failed("a/b"), failed("a/c", "", "cancelled"), failed("a")],
        ("tool_call", "listen"),
    ),
    "a plan": ([task("exec", EXECUTES), task("exec/0"), failed("exec/0", "x"), failed("exec")], ("plan_execution", "")),
    "a planner": ([task("plan", PLANS), task("plan/reply-1"), failed("plan/reply-1"), failed("plan")], ("planning", "")),
    "a block in a round before": (
        [task("a"), task("a/b"), *RAN, failed("a/b"), failed("a"), task("a"), failed("a")],
        ("step", ""),
    ),
    "a step beside one that completed": ([task("a"), failed("a"), task("b"), failed("b", "", "completed")], ("step", "")),
}


@pytest.mark.req("R3.12", "R3.43")
def test_failure_place_is_the_last_failed_step_or_the_reply(subtests: pytest.Subtests) -> None:
    for name, (facts, (stage, tool)) in AT_ITS_END.items():
        with subtests.test(name):
            found = place_of_verdict(RunBuilder().extend(*facts).run, "workflow")
            assert found == {"component": "workflow", "stage": stage, "tool": tool}


def test_old_log_without_failure_place_fields_is_readable() -> None:
    event = e.ErrorRaised(seq=1, at=None, run_id="r-1", error=e.RunError("ModelError", "down"), where="model")
    line = encode(event)
    assert (event.component, event.stage, event.tool) == ("", "", "") and decode(line) == event
    assert b"component" not in line and b"stage" not in line and b'"tool"' not in line
