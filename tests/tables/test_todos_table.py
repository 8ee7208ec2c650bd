"""The todos table: every change, and every breach of discipline."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from run_builder import begun, todo, todos_are, todos_of
from run_builder import run_of as built_run
from scripted_runs import do, play, work
from test_tables import COLUMNS
from todo_calls import write

from agentnb import Agent, TodoBoard, ToolCall, save_trace, tables
from agentnb.core.request import Request
from agentnb.core.todos import TodoStatus
from agentnb.models import ScriptedModel

run_of = partial(play, tools=[work])

TODOS = "todo_operations"
UNTRACKED_WORK, UNTRACKED_COMPLETION = "work_without_todo_in_progress", "completed_without_in_progress"


def update(*updates: dict[str, Any]) -> ToolCall:
    return ToolCall(TODOS, {"operation": "update", "todoUpdates": list(updates)})


def marked(number: int, status: str) -> ToolCall:
    return update({"id": number, "status": status})


def rows(source: Any, *columns: str) -> list[tuple[Any, ...]]:
    frame = tables.todos(source)
    cells = zip(*(frame[name] for name in columns), strict=True)
    return [tuple(None if pd.isna(cell) else cell for cell in row) for row in cells]


@pytest.mark.req("R0.63", "R0.82")
@pytest.mark.parametrize("source", [[], "a run"])
def test_columns_keep_their_types_with_any_data(source: Any) -> None:
    frame = tables.todos(run_of(write("One"), marked(1, "in-progress"), "[WORKFLOW_COMPLETE]") if source else source)
    assert {name: str(dtype) for name, dtype in frame.dtypes.items()} == COLUMNS["todos"]
    assert len(frame) == (2 if source else 0)


@pytest.mark.req("R0.63")
def test_disciplined_run_has_changes_but_no_breach() -> None:
    run = run_of(write("One", "Two"), marked(1, "in-progress"), do(1), marked(1, "completed"), "[WORKFLOW_COMPLETE]")
    assert rows(run, "round", "what", "by", "todo_id", "title", "before", "after", "breach") == [
        (1, "added", "model", 1, "One", None, "not-started", False),
        (1, "added", "model", 2, "Two", None, "not-started", False),
        (2, "status", "model", 1, "One", "not-started", "in-progress", False),
        (4, "status", "model", 1, "One", "in-progress", "completed", False),
    ]
    assert [call_id for (call_id,) in rows(run, "call_id")] == [run.rounds[n].calls[0].id for n in (0, 0, 1, 3)]
    assert rows(run, "run_id")[0] == (run.id,)


@pytest.mark.req("R0.63")
def test_working_without_a_todo_in_progress_is_a_breach() -> None:
    run = run_of(write("One"), [do(1), do(2)], marked(1, "in-progress"), do(3), "[WORKFLOW_COMPLETE]")
    todo_violations = [row for row in rows(run, "what", "round", "todo_id", "by", "call_id", "breach") if row[-1]]
    first, second = (call.id for call in run.rounds[1].calls)
    assert todo_violations == [
        (UNTRACKED_WORK, 2, None, "model", first, True),
        (UNTRACKED_WORK, 2, None, "model", second, True),
    ]


@pytest.mark.req("R0.63")
def test_completing_without_progress_is_a_breach() -> None:
    run = run_of(write("One", "Two"), update({"id": 1, "status": "completed"}, {"id": 2, "status": "completed"}), "Done.")
    assert rows(run, "what", "todo_id", "before", "after", "breach")[2:] == [
        ("status", 1, "not-started", "completed", False),
        (UNTRACKED_COMPLETION, 1, "not-started", "completed", True),
        ("status", 2, "not-started", "completed", False),
        (UNTRACKED_COMPLETION, 2, "not-started", "completed", True),
    ]
    assert tables.runs(run).iloc[0]["breaches"] == 2


@pytest.mark.req("R0.63")
def test_completing_a_postponed_todo_is_not_a_breach() -> None:
    marks = [marked(1, status) for status in ("in-progress", "not-started", "completed")]
    run = run_of(write("One"), *marks, "Done.")
    assert not tables.todos(run)["breach"].any()


@pytest.mark.req("R0.44", "R0.63")
def test_changes_by_others_are_never_a_breach() -> None:
    board = TodoBoard(["One", "Two"])

    def meanwhile(request: Request) -> str:
        board.complete(1)
        board.edit(2, title="Two, again")
        board.add("Three")
        return "Hm."

    def later(request: Request) -> str:
        board.remove(2)
        return "[WORKFLOW_COMPLETE]"

    run = run_of(meanwhile, later, todos=board)
    assert rows(run, "round", "what", "by", "todo_id", "title", "before", "after") == [
        (None, "inherited", None, 1, "One", None, "not-started"),
        (None, "inherited", None, 2, "Two", None, "not-started"),
        (1, "status", "outside", 1, "One", "not-started", "completed"),
        (1, "edited", "outside", 2, "Two, again", "not-started", "not-started"),
        (1, "added", "outside", 3, "Three", None, "not-started"),
        (2, "removed", "outside", 2, "Two, again", "not-started", None),
    ]
    assert not tables.todos(run)["breach"].any()
    assert rows(run, "call_id") == [(None,)] * 6


@pytest.mark.req("R0.62", "R0.63")
def test_todo_list_of_the_earlier_conversation_is_inherited() -> None:
    first = run_of(write("One", "Two"), marked(1, "in-progress"), "[WORKFLOW_COMPLETE]")
    second = Agent(ScriptedModel([marked(1, "completed"), "[WORKFLOW_COMPLETE]"]), tools=[work]).run_sync(
        "Go on.", continue_from=first
    )
    assert rows(second, "round", "what", "todo_id", "after") == [
        (None, "inherited", 1, "in-progress"),
        (None, "inherited", 2, "not-started"),
        (1, "status", 1, "completed"),
    ]
    assert len(tables.todos([first, second])) == 6


@pytest.mark.req("R0.58")
def test_call_without_a_change_has_no_row() -> None:
    run = run_of(write("One"), marked(1, "not-started"), marked(7, "completed"), "[WORKFLOW_COMPLETE]")
    assert len(tables.todos(run)) == 1


@pytest.mark.req("R0.63")
def test_saved_run_has_the_same_todos_table(tmp_path: Path) -> None:
    run = run_of(write("One", "Two"), do(1), marked(2, "completed"), "[WORKFLOW_COMPLETE]")
    pd.testing.assert_frame_equal(tables.todos(save_trace(run, tmp_path / "run.jsonl")), tables.todos(run))
    assert tables.todos(run)["breach"].sum() == 2


@pytest.mark.req("R0.82")
def test_runs_table_has_the_completion_rate() -> None:
    first = [marked(1, "in-progress"), marked(1, "completed"), "[WORKFLOW_COMPLETE]"]
    summary = tables.runs([run_of(write("One", "Two", "Three"), *first), run_of(write("One"), *first), run_of("Done.")])
    assert list(summary["todos"]) == [3, 1, 0] and list(summary["todos_completed"]) == [1, 1, 0]
    assert [None if pd.isna(done) else bool(done) for done in summary["all_completed"]] == [False, True, None]


def test_changes_before_the_first_round_have_no_round() -> None:
    run = built_run(todos_are(*todos_of("in-progress")), todos_are(*todos_of("completed")))
    assert rows(run, "round", "what", "by", "after") == [
        (None, "added", "outside", "in-progress"),
        (None, "status", "outside", "completed"),
    ]


def test_todo_row_names_the_changed_fields() -> None:
    before, after = todo(1), todo(1, title="Another", description="Why")
    assert rows(built_run(todos_are(before), todos_are(after)), "changed") == [(None,), ("title, description",)]


def test_violation_has_one_row_per_call() -> None:
    statuses: list[TodoStatus] = [*["completed", "not-started"] * 6, "in-progress", "completed"]  # the last is none
    changes = [todos_are(todo(1, status), by="model", call_id="c") for status in statuses]
    run = built_run(*begun(0), *changes)
    assert len(run.rounds[0].todo_violations) == 6 == tables.todos(run)["breach"].sum()
