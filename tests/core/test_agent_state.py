"""The state of the agent, derived from the log alone."""

from __future__ import annotations

from typing import Any

import pytest
from run_builder import Fact, RunBuilder, a_round, begun, blocked_call, called

from agentnb.core.log import events as e
from agentnb.core.log import work_events as w
from agentnb.core.messages import Message, Text, Thinking, ToolCall, ToolResult
from agentnb.core.questions import WaitingOnUser
from agentnb.core.run.fold import fold_events
from agentnb.detect.run import Run

CALL, OTHER = called("look", "c1"), called("listen", "c2")
THINKING, TOOL, PLAN, WAITING = "thinking", "executing_tool", "executing_plan", "waiting_on_user"


def replied(*parts: Any, **fields: Any) -> Fact:
    return e.ModelReplied, {"message": Message("assistant", parts), **fields}


def started(call: ToolCall, **fields: Any) -> Fact:
    return e.ToolStarted, {"call": call, **fields}


def finished(call: ToolCall, error_code: str = "", **fields: Any) -> Fact:
    result = ToolResult(call.id, call.name, (), is_error=bool(error_code), error_code=error_code or None)
    return e.ToolFinished, {"result": result, **fields}


def asked(call_id: str = "", kind: str = "approval", name: str = "q1") -> Fact:
    return e.QuestionAsked, {"question": WaitingOnUser(kind, "Well?", {}, name, call_id)}


def given(name: str = "q1") -> Fact:
    return e.QuestionAnswered, {"question_id": name, "answer": True}


def ended(status: str = "completed") -> Fact:
    return e.RunFinished, {"status": status, "stop_reason": status, "seconds": 1.0}


def over(index: int = 0) -> Fact:
    return e.RoundFinished, {"index": index, "status": "success"}


def executes(path: str = "exec", **plan: Any) -> Fact:
    return w.StepStarted, {"step": path, "step_kind": "task", "agent": "llm/exec:run_plan", "inputs": {"plan": plan}}


def step(path: str, **fields: Any) -> Fact:
    return w.StepStarted, {"step": path, "step_kind": "call", **fields}


def states(*facts: Fact) -> list[str | None]:
    """Return the state after each of these events."""
    built, events_seen = RunBuilder(), []
    for fact in facts:
        built.extend(fact)
        events_seen.append(built.run.agent_state)
        assert fold_events(built.run.events).agent_state == built.run.agent_state
    return events_seen


def commanded(command: str) -> Fact:
    return e.CommandReceived, {"command": command}


TWO_CALLS = [*begun(0), replied(CALL, OTHER)]
CASES: dict[str, tuple[list[Fact], list[str | None]]] = {
    "nothing but the start": ([], []),
    "words": ([*begun(0), replied(Text("Well.")), over(), ended()], [THINKING, WAITING, WAITING, WAITING]),
    "words at a limit": ([*begun(0), replied(Text("Well.")), ended("limited")], [THINKING, WAITING, WAITING]),
    "words, and another round": ([*a_round(0, "So far."), *begun(1)], [THINKING, WAITING, WAITING, THINKING]),
    "words, and then an empty reply": (
        [*a_round(0, "So far."), *begun(1), replied(), ended()],
        [THINKING, WAITING, WAITING, THINKING, THINKING, None],
    ),
    "an empty reply": ([*begun(0), replied(Text(" \n")), over(), ended()], [THINKING, THINKING, THINKING, None]),
    "a reply of thinking": ([*begun(0), replied(Thinking("Hm.")), ended()], [THINKING, THINKING, None]),
    "words that broke off": (
        [*begun(0), replied(Text("I"), stop_reason="broken_off"), ended("failed")],
        [THINKING, THINKING, None],
    ),
    "words and a call": ([*begun(0), replied(Text("Let me look."), CALL)], [THINKING, THINKING]),
    "words and a call of the provider": (
        [*begun(0), replied(ToolCall("web_search", {}, "s1", {"server_side": {"type": "web"}}), Text("Found."))],
        [THINKING, WAITING],
    ),
    "two calls at once": (
        [*TWO_CALLS, started(CALL), started(OTHER), finished(CALL), finished(OTHER)],
        [THINKING, THINKING, TOOL, TOOL, TOOL, THINKING],
    ),
    "a blocked call": ([*TWO_CALLS, *blocked_call(CALL)], [THINKING, THINKING, THINKING]),
    "a blocked call beside one that runs": (
        [*TWO_CALLS, started(CALL), *blocked_call(OTHER), finished(CALL)],
        [THINKING, THINKING, TOOL, TOOL, THINKING],
    ),
    "a call that a tool makes": (
        [*TWO_CALLS, started(CALL), started(OTHER, parent_call="c1"), finished(OTHER, parent_call="c1"), finished(CALL)],
        [THINKING, THINKING, TOOL, TOOL, TOOL, THINKING],
    ),
    "a call that the time limit cuts off": (
        [*TWO_CALLS, started(CALL), finished(CALL, "time_limit"), over(), *begun(1, "final_answer")],
        [THINKING, THINKING, TOOL, TOOL, TOOL, THINKING],
    ),
    "a call without a result in the trace": (
        [*TWO_CALLS, started(CALL), *begun(1), started(OTHER), finished(OTHER)],
        [THINKING, THINKING, TOOL, THINKING, TOOL, THINKING],
    ),
    "a gate that asks": (
        [*TWO_CALLS, asked("c1"), given(), started(CALL), finished(CALL)],
        [THINKING, THINKING, WAITING, WAITING, TOOL, THINKING],
    ),
    "a gate that asks, and the person denies": (
        [*TWO_CALLS, asked("c1"), given(), *blocked_call(CALL)],
        [THINKING, THINKING, WAITING, WAITING, THINKING],
    ),
    "a tool that asks": (
        [*TWO_CALLS, started(CALL), asked("c1", "form"), given(), finished(CALL)],
        [THINKING, THINKING, TOOL, WAITING, TOOL, THINKING],
    ),
    "two questions": (
        [*TWO_CALLS, started(CALL), asked("c1"), asked("c1", name="q2"), given(), given("q2")],
        [THINKING, THINKING, TOOL, WAITING, WAITING, WAITING, TOOL],
    ),
    "a question beside a call that begins and ends": (
        [*TWO_CALLS, asked("c1"), started(OTHER), finished(OTHER)],
        [THINKING, THINKING, WAITING, WAITING, WAITING],
    ),
    "a pause": (
        [*begun(0), commanded("pause"), commanded("resume"), *begun(1)],
        [THINKING, WAITING, WAITING, THINKING],
    ),
    "a suspended question": ([*TWO_CALLS, asked("c1"), (e.RunSuspended, {})], [THINKING, THINKING, WAITING, WAITING]),
    "a process that died in a call": (
        [*TWO_CALLS, started(CALL), (e.RunRecovered, {"schema": e.SCHEMA}), finished(CALL)],
        [THINKING, THINKING, TOOL, THINKING, THINKING],
    ),
    "a question that waits for another process": (
        [*TWO_CALLS, asked("c1"), (e.RunSuspended, {}), (e.RunRecovered, {"schema": e.SCHEMA})],
        [THINKING, THINKING, WAITING, WAITING, WAITING],
    ),
    "steps of a workflow": (
        [step("a"), started(CALL, step="a"), finished(CALL, step="a"), (w.StepFinished, {"step": "a"}), ended()],
        [THINKING, TOOL, THINKING, THINKING, None],
    ),
}


@pytest.mark.req("R3.13", "R3.14", "R3.30", "K3.2")
def test_agent_state_follows_each_event(subtests: pytest.Subtests) -> None:
    for name, (facts, expected) in CASES.items():
        with subtests.test(name):
            assert states(*facts) == expected


@pytest.mark.req("R3.13")
def test_failed_or_stopped_run_has_no_agent_state(subtests: pytest.Subtests) -> None:
    assert (Run().agent_state, RunBuilder().run.agent_state) == (None, None)
    for status in ("failed", "stopped", "cancelled"):
        with subtests.test(status):
            assert states(*a_round(0, "Well."), ended(status))[-1] is None
            assert states(*TWO_CALLS, started(CALL), ended(status))[-1] is None
            assert states(*TWO_CALLS, asked("c1"), ended(status))[-1] is None
    died = RunBuilder().extend(*begun(0)).run
    died.mark_interrupted()
    assert died.agent_state is None


PLANNED: list[Fact] = [
    (w.PlanProposed, {"plan_id": "a", "plan": {"steps": [{}] * 5}}),
    *begun(0),
    replied(CALL),
    started(CALL),
]


@pytest.mark.req("R3.13", "R3.30", "K3.2")
def test_running_plan_stays_in_state_executing_for_any_call() -> None:
    inner = called("fetch", "exec/0")
    run = [
        executes(id="a"),
        step("exec/0"),
        started(inner, step="exec/0"),
        asked("exec/0"),
        given(),
        finished(inner, step="exec/0"),
    ]
    facts = [*PLANNED, *run, (w.StepFinished, {"step": "exec/0"}), (w.StepFinished, {"step": "exec"}), finished(CALL)]
    assert states(*facts)[3:] == [TOOL, PLAN, PLAN, PLAN, WAITING, PLAN, PLAN, PLAN, PLAN, THINKING]
    assert states(*facts[:8], ended("cancelled"))[-1] is None


@pytest.mark.req("R3.13", "R3.37")
def test_running_plan_reports_its_step_number_and_step_count(subtests: pytest.Subtests) -> None:
    built = RunBuilder().extend(*PLANNED)
    for name, (fact, expected) in {
        "begun": (executes(id="a"), (0, 5)),
        "its first step": (step("exec/0"), (1, 5)),
        "a step that asks": (step("exec/question-2"), (3, 5)),
        "a step within that step": (step("exec/question-2/inner"), (3, 5)),
        "its last step": (step("exec/4"), (5, 5)),
        "its end": ((w.StepFinished, {"step": "exec"}), None),
        "again, as the last that was made": (executes(), (0, 5)),
        "again, with a plan of its own": (executes(id="b", steps=[{}, {}]), (0, 2)),
        "again, after an edit": ((w.PlanEdited, {"plan_id": "a", "plan": {"steps": [{}]}}), (0, 2)),
        "again, as edited": (executes(id="a"), (0, 1)),
        "again, without a list of steps": (executes(id="c", steps="none"), (0, 0)),
        "of a plan with an invalid id": (executes(id=["x"]), (0, 0)),
        "the run's end": (ended("failed"), None),
    }.items():
        with subtests.test(name):
            built.extend(fact)
            assert built.run.plan_position == expected
            assert fold_events(built.run.events).plan_position == expected
