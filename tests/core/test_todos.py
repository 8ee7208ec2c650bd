"""Queries on a list of todos."""

from __future__ import annotations

import msgspec
import pytest
from asserted_sentences import Snapshot
from run_builder import todo

from agentnb.core.request import role_of
from agentnb.core.todos import (
    Todo,
    all_open_are_blocked,
    format_count,
    format_list,
    has_one_in_progress,
    has_open,
    is_open,
    newly_completed,
    next_todo,
    normal_status,
    open_todos,
)

TODO, DOING, DONE, STUCK = "not-started", "in-progress", "completed", "blocked"


@pytest.mark.req("R0.64")
def test_only_thinking_and_the_todo_list_are_planning() -> None:
    roles = {name: role_of(name) for name in ("think", "todo_operations", "TodoWrite", "write_todos", "update_plan", "look")}
    assert roles == dict(zip(roles, ["planning", *["list"] * 4, "work"], strict=True))


@pytest.mark.req("R0.19", "K0.8")
def test_completed_todo_is_not_open_however_spelled(subtests: pytest.Subtests) -> None:
    for status in ["completed", "Completed", "COMPLETED", " completed "]:
        with subtests.test(status=status):
            assert not is_open(Todo(1, "Look", status))  # type: ignore[arg-type]


@pytest.mark.req("R0.19", "K0.8")
def test_every_other_status_is_open(subtests: pytest.Subtests) -> None:
    for status in [TODO, DOING, STUCK, "In_Progress", "complete", "", "done", "not completed"]:
        with subtests.test(status=status):
            assert is_open(Todo(1, "Look", status))  # type: ignore[arg-type]


@pytest.mark.req("K0.8")
def test_case_and_underscores_are_ignored_in_a_status(subtests: pytest.Subtests) -> None:
    for written in ["in-progress", "in_progress", "In Progress", "IN_PROGRESS", "  in-progress\n"]:
        with subtests.test(written=written):
            assert normal_status(written) == "in-progress"


@pytest.mark.req("R0.19")
def test_list_has_open_todos_unless_all_are_completed() -> None:
    assert not has_open(())
    assert not has_open([todo(1, DONE), todo(2, DONE)])
    assert has_open([todo(1, DONE), todo(2, STUCK)])
    assert open_todos([todo(1, DONE), todo(2, STUCK), todo(3), todo(4, DOING)]) == (todo(2, STUCK), todo(3), todo(4, DOING))


def test_only_status_in_progress_counts_as_in_progress() -> None:
    assert has_one_in_progress([todo(1), todo(2, DOING)])
    assert not has_one_in_progress([todo(1), todo(2, DONE), todo(3, STUCK)])
    assert not has_one_in_progress([])


def test_all_open_todos_are_blocked_only_if_any_exist() -> None:
    assert all_open_are_blocked([todo(1, DONE), todo(2, STUCK)])
    assert not all_open_are_blocked([todo(1, STUCK), todo(2)])
    assert not all_open_are_blocked([todo(1, STUCK), todo(2, DOING)])
    assert not all_open_are_blocked([todo(1, DONE)])
    assert not all_open_are_blocked([])


def test_next_todo_prefers_in_progress_over_not_started() -> None:
    assert next_todo([todo(1), todo(2, DOING), todo(3, DOING)]) == todo(2, DOING)
    assert next_todo([todo(1, DONE), todo(2), todo(3)]) == todo(2)
    assert next_todo([todo(1, DONE), todo(2, STUCK)]) is None
    assert next_todo([]) is None


@pytest.mark.req("R0.65")
def test_newly_completed_todos_exclude_earlier_ones() -> None:
    before = [todo(1, DONE), todo(2, DOING), todo(3)]
    after = [todo(1, DONE), todo(2, DONE), todo(3, DOING), todo(4, DONE)]
    assert newly_completed(before, after) == (todo(2, DONE), todo(4, DONE))
    assert newly_completed(after, after) == () == newly_completed(after, [])


def test_reopened_todo_can_be_completed_again() -> None:
    assert newly_completed([todo(1, DOING)], [todo(1, DONE)]) == (todo(1, DONE),)


def test_list_is_counted_and_shown_one_todo_per_line(snapshot: Snapshot) -> None:
    todos = [todo(1, DONE), Todo(2, "Ask  the\nperson", STUCK, "who\nknows", blocked_reason="no answer")]
    assert format_count(todos) == "1 of 2 completed"
    assert format_list(todos) == snapshot
    assert (format_count([]), format_list([])) == ("0 of 0 completed", "")


@pytest.mark.req("R0.56")
def test_todo_round_trips_with_the_tools_field_names() -> None:
    one = Todo(1, "Look", DOING, "around", "high", (2, 3), True, "a", 0.5, None)
    data = msgspec.json.encode(one)
    assert set(msgspec.json.decode(data)) == {
        "id", "title", "status", "description", "priority", "dependencies", "canRunParallel", "parallelGroup", "progress",
    }  # fmt: skip
    assert msgspec.json.decode(data, type=Todo) == one


@pytest.mark.req("R0.54")
def test_todo_defaults_to_not_started() -> None:
    assert Todo(1, "Look").status == "not-started"
