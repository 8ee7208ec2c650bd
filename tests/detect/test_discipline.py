"""Todo discipline: completed todos, and work done outside the list."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from run_builder import Story, todo

from agentnb import Store, load_trace, save_trace
from agentnb.advice import as_advice
from agentnb.core.log import events as e
from agentnb.core.messages import ToolResult
from agentnb.core.run.rounds import TodoViolation
from agentnb.core.todos import TODO_TOOL, Todo
from agentnb.detect.judgements import TODO_VIOLATIONS, UNTRACKED_COMPLETION, UNTRACKED_WORK

DOING, DONE, STUCK = "in-progress", "completed", "blocked"


def todo_violations(tale: Story) -> list[TodoViolation]:
    return [violation for round_ in tale.run.rounds for violation in round_.todo_violations]


def rules(tale: Story) -> list[str]:
    return [violation.rule for violation in todo_violations(tale)]


@pytest.mark.req("R0.63")
def test_there_are_two_kinds_of_todo_violations() -> None:
    assert {UNTRACKED_WORK, UNTRACKED_COMPLETION} == TODO_VIOLATIONS


@pytest.mark.req("R0.54", "R0.63")
def test_marking_working_and_completing_is_not_a_violation() -> None:
    tale = Story().planned(todo(1), todo(2)).planned(todo(1, DOING), todo(2)).called("look")
    tale.planned(todo(1, DONE), todo(2)).planned(todo(1, DONE), todo(2, DOING)).called("look", "see")
    assert todo_violations(tale.planned(todo(1, DONE), todo(2, DONE)).called("look")) == []


@pytest.mark.req("R0.63")
def test_work_without_a_todo_in_progress_is_a_violation(subtests: pytest.Subtests) -> None:
    cases = [
        ([], False),
        ([todo(1)], True),
        ([todo(1, DOING)], False),
        ([todo(1, DONE)], False),
        ([todo(1, STUCK)], True),
        ([todo(1, DONE), todo(2)], True),
        ([todo(1, DONE), todo(2, DOING)], False),
    ]
    for todos, breached in cases:
        with subtests.test(statuses=[one.status for one in todos]):
            tale = Story(*todos).called("look")
            assert todo_violations(tale) == ([TodoViolation(UNTRACKED_WORK, "c1")] if breached else [])


@pytest.mark.req("R0.63")
def test_planning_is_not_work() -> None:
    assert todo_violations(Story(todo(1)).called("think", TODO_TOOL)) == []


@pytest.mark.req("R0.63")
def test_untracked_calls_are_separate_violations_in_their_round() -> None:
    tale = Story(todo(1)).called("look", "see").called("think").called("look")
    assert [[violation.call_id for violation in round_.todo_violations] for round_ in tale.run.rounds] == [
        ["c1", "c2"],
        [],
        ["c4"],
    ]


@pytest.mark.req("R0.63")
@pytest.mark.parametrize(("code", "ran"), [("tool_error", True), ("timeout", True), ("unknown_tool", False)])
def test_failed_work_is_a_violation_but_unexecuted_work_is_not(code: str, ran: bool) -> None:
    tale = Story(todo(1)).called("look", is_error=True, error_code=code)
    assert rules(tale) == [UNTRACKED_WORK] * ran


@pytest.mark.req("R0.63")
def test_blocked_call_is_not_work() -> None:
    assert todo_violations(Story(todo(1)).refused("look")) == []


@pytest.mark.req("R0.63")
def test_call_is_judged_by_the_list_at_its_time() -> None:
    tale = Story(todo(1)).begun()
    early, mark, late = tale.call("look"), tale.call(TODO_TOOL), tale.call("look")
    tale.replied(early, mark, late).ran(early).listed(todo(1, DOING), call_id=mark.id).ran(mark).ran(late).ended()
    assert todo_violations(tale) == [TodoViolation(UNTRACKED_WORK, early.id)]


@pytest.mark.req("R0.63")
def test_user_may_mark_a_todo_for_the_model() -> None:
    assert todo_violations(Story(todo(1)).listed(todo(1, DOING), by="outside").called("look")) == []


@pytest.mark.req("R0.63")
def test_completion_without_progress_is_a_violation_naming_its_todo() -> None:
    tale = Story(todo(1), todo(2)).planned(todo(1, DONE), todo(2))
    assert todo_violations(tale) == [TodoViolation(UNTRACKED_COMPLETION, "c1", 1)]
    assert tale.last.completed == (1,)


@pytest.mark.req("R0.63")
def test_todo_created_as_completed_was_never_in_progress() -> None:
    tale = Story().planned(todo(1, DONE), todo(2, DONE))
    assert [violation.todo_id for violation in todo_violations(tale)] == [1, 2]
    assert tale.last.completed == (1, 2)


@pytest.mark.req("R0.63")
def test_todo_once_in_progress_may_be_completed() -> None:
    assert todo_violations(Story().planned(todo(1, DOING)).planned(todo(1, STUCK)).planned(todo(1, DONE))) == []
    assert todo_violations(Story(todo(1)).listed(todo(1, DOING), by="outside").planned(todo(1, DONE))) == []
    assert todo_violations(Story(todo(1, DOING)).planned(todo(1, DONE))) == []


@pytest.mark.req("R0.63")
def test_completions_by_others_are_not_violations() -> None:
    tale = Story(todo(1)).begun().listed(todo(1, DONE), by="outside").ended()
    assert (tale.last.completed, tale.last.todo_violations) == ((), ())
    assert tale.run.todos == (todo(1, DONE),)


def test_completed_todos_of_a_round_keep_their_order() -> None:
    tale = Story(todo(1, DOING), todo(2, DOING)).begun()
    one, two = tale.call(TODO_TOOL), tale.call(TODO_TOOL)
    tale.replied(one, two).listed(todo(1, DOING), todo(2, DONE), call_id=one.id).ran(one)
    tale.listed(todo(1, DONE), todo(2, DONE), call_id=two.id).ran(two).ended()
    assert tale.last.completed == (2, 1)


def test_list_change_before_the_first_round_belongs_to_no_round() -> None:
    tale = Story(todo(1)).listed(todo(1, DONE), by="outside").said()
    assert (tale.run.todos, tale.last.completed) == ((todo(1, DONE),), ())


def everything() -> Story:
    """Build a run with all kinds of events."""
    tale = Story(todo(1), settings={"max_rounds": 9})
    tale.called("look").planned(todo(1, DONE), todo(2)).refused("look").said("Well.", reason="open_todos")
    tale.listed(todo(2), by="outside").heard().add(e.Warned, message="mind").said("Well.", reason="said")
    tale.add(e.LoopDetected, rule="already_said", first=1, last=2, sentence="Again.")
    tale.add(e.LimitReached, limit="max_rounds", value=9)
    tale.add(e.ErrorRaised, error=e.RunError("X", "y", as_advice("z")), where="model")
    return tale.over("stopped", "loop_detected")


@pytest.mark.req("R0.2", "R0.63")
def test_run_with_todo_violations_survives_saving_and_loading(tmp_path: Path) -> None:
    run = everything().run
    loaded = load_trace(save_trace(run, tmp_path / "run.jsonl"))
    assert loaded == run
    assert [round_.todo_violations for round_ in loaded.rounds] == [round_.todo_violations for round_ in run.rounds]
    assert loaded.counters == run.counters and loaded.calls == run.calls and loaded.todos == run.todos
    assert [loop.sentence for loop in loaded.loops] == ["Again."]
    assert loaded.rounds[-1].status == "duplicate_loop_broken"
    assert {type(event) for event in run.events} >= {e.CallBlocked, e.TodosChanged, e.LoopDetected}


@pytest.mark.req("R0.2")
def test_stored_run_equals_the_original_and_keeps_its_list(tmp_path: Path) -> None:
    store, run = Store(tmp_path / "runs"), everything().run
    file = asyncio.run(store.open(run.id))
    for event in run.events:
        file.append(event)
    file.close()
    assert store.load(run.id) == run
    assert store.load(run.id).todos == (todo(2),)


def test_runs_that_differ_in_counts_are_not_equal(subtests: pytest.Subtests) -> None:
    for without in ["tallies", "calls", "todos", "breaches"]:
        with subtests.test(without=without):
            base, other = Story(todo(1)), Story(todo(1))
            if without == "tallies":
                base.said(reason="open_todos"), other.said(reason="prompt")
            elif without == "calls":
                base.called("look"), other.called("see")
            elif without == "todos":
                base.listed(todo(2)), other.listed(todo(3))
            else:
                base.called("look"), other.called("look", error_code="unknown_tool")
            assert base.run != other.run


def test_every_call_has_one_result_even_if_blocked() -> None:
    tale = Story().begun()
    one, two = tale.call("look"), tale.call("look")
    tale.replied(one, two).ran(one).blocked(two).ended()
    assert [result.error_code for result in tale.last.results] == [None, "duplicate_call_blocked"]
    assert [record.success for record in tale.last.records] == [True, False]
    assert [part.call_id for part in tale.run.messages[-1].parts if isinstance(part, ToolResult)] == [one.id, two.id]


@pytest.mark.req("R0.63", "KX.12")
def test_parallel_calls_are_judged_by_their_order_in_the_reply() -> None:
    """The todo tool runs before them, regardless of the requested order."""
    tale = Story(todo(1))
    early, start, between, complete, late = (tale.call(name) for name in ("look", TODO_TOOL, "look", TODO_TOOL, "look"))
    tale.begun().replied(early, start, between, complete, late)
    tale.listed(todo(1, DOING), todo(2), call_id=start.id).ran(start).listed(todo(1, DONE), todo(2), call_id=complete.id).ran(
        complete
    )
    tale.ran(early).ran(between).ran(late).ended()
    assert todo_violations(tale) == [TodoViolation(UNTRACKED_WORK, early.id), TodoViolation(UNTRACKED_WORK, late.id)]


@pytest.mark.req("R0.63")
def test_call_interrupted_by_a_stop_is_not_work() -> None:
    assert todo_violations(Story(todo(1)).called("look", is_error=True, error_code="cancelled")) == []


@pytest.mark.req("R0.63")
def test_new_todo_reusing_an_id_must_also_be_started() -> None:
    tale = Story(todo(1)).planned(todo(1, DOING)).planned(Todo(1, "Another")).planned(Todo(1, "Another", DONE))
    assert rules(tale) == [UNTRACKED_COMPLETION]
