"""Planning without end."""

from __future__ import annotations

import pytest
from ephemeral_text import reminder
from run_builder import a_round, said, todos_of
from run_checks import cells, ended, reasons
from scripted_runs import do, scripted, tool_run
from todo_calls import complete, mark, start, write

from agentnb.core.messages import ToolCall
from agentnb.core.todos import TODO_TOOL, Todo
from agentnb.detect.run import Run
from agentnb.policies import Continue, PlanningLoop, Stop

THINK = ToolCall("think")
READ = ToolCall(TODO_TOOL, {"operation": "read"})
WORK = ToolCall("work")
OPEN = todos_of("not-started", "in-progress")


def thought(number: int) -> ToolCall:
    return ToolCall("think", {"thought": f"idea {number}"})


def rounds(*calls: ToolCall | str | tuple[ToolCall, ...], todos: tuple[Todo, ...] = OPEN, reason: str = "") -> Run:
    facts = []
    for index, one in enumerate(calls):
        facts += a_round(index, *(one if isinstance(one, tuple) else (one,)), reason=reason if index else "")
    return tool_run(*facts, todos=todos)


# Alone


@pytest.mark.req("R0.66")
def test_fourth_round_of_planning_brings_an_intervention() -> None:
    assert PlanningLoop()(rounds(THINK, READ, THINK)) is None
    verdict = PlanningLoop()(rounds(THINK, READ, THINK, READ))
    assert isinstance(verdict, Continue)
    assert verdict.reason == "planning_only"
    assert [(guidance.cell, guidance.level, guidance.trigger) for guidance in verdict.guidance] == [
        ("intervention", 3, "planning_only")
    ]


@pytest.mark.req("R0.66")
@pytest.mark.parametrize("most", [1, 2, 6])
def test_number_of_tolerated_planning_rounds_is_configurable(most: int) -> None:
    assert PlanningLoop(most)(rounds(*[THINK] * most)) is None
    assert PlanningLoop(most)(rounds(*[THINK] * (most + 1))) is not None


@pytest.mark.req("R0.64", "R0.66")
@pytest.mark.parametrize("between", [WORK, (THINK, WORK), ToolCall("read_notes")])
def test_any_other_tool_counts_as_work(between: ToolCall) -> None:
    assert PlanningLoop()(rounds(THINK, THINK, THINK, between, THINK, THINK, THINK)) is None
    assert PlanningLoop()(rounds(THINK, THINK, THINK, between)) is None


@pytest.mark.req("R0.65")
def test_completing_a_todo_is_progress_but_other_updates_are_not() -> None:
    before = [*a_round(0, THINK), *a_round(1, THINK), *a_round(2, THINK)]
    done, begun = todos_of("not-started", "completed"), todos_of("in-progress", "in-progress")
    assert PlanningLoop()(tool_run(*before, *a_round(3, complete(2), after=done), todos=OPEN)) is None
    assert PlanningLoop()(tool_run(*before, *a_round(3, complete(2), after=done), *a_round(4, THINK), todos=OPEN)) is None
    assert PlanningLoop()(tool_run(*before, *a_round(3, start(1), after=begun), todos=OPEN)) is not None


@pytest.mark.req("R0.65")
def test_completing_a_completed_todo_is_not_progress() -> None:
    facts = [fact for index in range(4) for fact in a_round(index, complete(1), after=todos_of("completed", "in-progress"))]
    assert PlanningLoop()(tool_run(*facts, todos=todos_of("completed", "in-progress"))) is not None


@pytest.mark.req("R0.66")
def test_text_alone_neither_counts_as_planning_nor_resets_it() -> None:
    assert PlanningLoop()(rounds(THINK, "Hm.", THINK, "Hm.", THINK)) is None
    assert PlanningLoop()(rounds(THINK, "Hm.", THINK, "Hm.", THINK, THINK)) is not None
    assert PlanningLoop()(rounds(THINK, THINK, THINK, THINK, "Hm.")) is None


@pytest.mark.req("R0.66")
def test_user_message_resets_the_count() -> None:
    facts = [*a_round(0, THINK), *a_round(1, THINK), *a_round(2, THINK), said("Plan well."), *a_round(3, THINK)]
    assert PlanningLoop()(tool_run(*facts, todos=OPEN)) is None


@pytest.mark.req("R0.48", "R0.53")
def test_planning_run_stops_at_the_cap() -> None:
    run = rounds(*[THINK] * 4, reason="planning_only")
    assert isinstance(PlanningLoop(cap=4)(run), Continue)
    assert PlanningLoop(cap=3)(run) == Stop("todo_intervention_exhausted", "stopped")


@pytest.mark.req("R0.66")
@pytest.mark.parametrize("todos", [(), todos_of("completed")])
def test_reaching_the_cap_without_open_todos_is_a_loop(todos: tuple[Todo, ...]) -> None:
    verdict = PlanningLoop(cap=3)(rounds(*[THINK] * 5, todos=todos, reason="planning_only"))
    assert isinstance(verdict, Stop)
    assert (verdict.stop_reason, verdict.status) == ("loop_detected", "stopped")
    assert verdict.loop is not None
    assert verdict.loop[:3] == ("planning_only", 0, 4)
    assert "5 rounds" in verdict.loop.sentence


# Whole runs


@pytest.mark.req("R0.66", "R0.48", "R0.53")
def test_model_that_only_plans_is_warned_and_stopped() -> None:
    run, model = scripted(write("One", "Two"), *[thought(number) for number in range(8)])
    assert reasons(run) == ["prompt", *["tool_results"] * 3, *["planning_only"] * 5]
    assert [reminder(request).startswith("FINAL WARNING:") for request in model.requests] == [False] * 4 + [True] * 5
    assert ended(run) == ("stopped", "todo_intervention_exhausted")
    assert "2 todos are still open" in run.warnings[0]


@pytest.mark.req("R0.66")
def test_model_that_only_thinks_without_a_list_is_looping() -> None:
    run, _ = scripted(*[thought(number) for number in range(9)])
    assert ended(run) == ("stopped", "loop_detected")
    (loop,) = run.loops
    assert (loop.rule, loop.first, loop.last, loop.severity) == ("planning_only", 0, 8, "stop")
    assert run.rounds[-1].status == "duplicate_loop_broken"


@pytest.mark.req("R0.49", "R0.66")
def test_doing_work_satisfies_the_planning_intervention() -> None:
    replies = [write("One"), READ, thought(1), thought(2), start(1), do(1), complete(1), "Done."]
    run, _ = scripted(*replies)
    assert reasons(run)[4:] == ["planning_only", "planning_only", "tool_results", "tool_results"]
    assert [round.followed[0].followed for round in run.rounds[4:6]] == [False, True]
    assert ended(run) == ("completed", "natural")


@pytest.mark.req("R0.67", "R0.84")
@pytest.mark.parametrize("count", [3, 12])
def test_starting_working_and_completing_is_not_a_planning_loop(count: int) -> None:
    steps = [call for number in range(1, count + 1) for call in (start(number), do(number), complete(number))]
    run, _ = scripted(write(*[f"Story {number}" for number in range(1, count + 1)]), *steps, "All are written.")
    assert set(reasons(run)) == {"prompt", "tool_results"}
    assert all(cell != "intervention" for said in cells(run) for cell, _ in said)
    assert ended(run) == ("completed", "natural")


@pytest.mark.req("R0.67")
def test_completing_todos_is_not_a_planning_loop() -> None:
    marks = [call for number in range(1, 7) for call in (start(number), complete(number))]
    run, _ = scripted(write(*[f"Story {number}" for number in range(1, 7)]), *marks, "All are written.")
    assert "planning_only" not in reasons(run)


@pytest.mark.req("R0.66")
def test_repeatedly_postponed_todos_are_a_planning_loop() -> None:
    marks = [mark(number, status) for number in (1, 2) for status in ("in-progress", "not-started")]
    run, _ = scripted(write("One", "Two"), *marks, "[WORKFLOW_COMPLETE]")
    assert reasons(run)[4:] == ["planning_only", "planning_only"]
