"""Syncing the todos of a run with its board, for any board content and unreadable boards."""

from __future__ import annotations

import itertools
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from run_builder import opening
from run_checks import todo_changes
from todo_calls import ForeignBoard

from agentnb.agent.agent import Agent
from agentnb.core.messages import ToolCall
from agentnb.core.todos import Todo, Todos
from agentnb.detect.run import Run
from agentnb.models.scripted import ScriptedModel
from agentnb.runtime.calls.todo_sync import TodoSync
from agentnb.runtime.event_log import EventLog
from agentnb.store.store import Store
from agentnb.tools.todos.board import TodoBoard

DOING, DONE = "in-progress", "completed"


def checked(board: Any, *todos: Todo) -> tuple[TodoSync, EventLog]:
    """Return a sync check of a run that started with these todos."""
    log = EventLog("r-1")
    log.append(opening(todos=todos))
    return TodoSync(board, log), log


# Sync checks alone


@pytest.mark.req("R0.43")
def test_changed_list_is_written_and_unchanged_list_is_not() -> None:
    one, two = Todo(1, "Look"), Todo(1, "Look", DONE)
    board = ForeignBoard(one)
    check, log = checked(board, one)
    check.look()
    assert len(log.run.events) == 1
    board.todos = (two,)
    check.look()
    check.look()
    assert [(event.todos, event.by, event.call_id) for event in todo_changes(log.run)] == [((two,), "outside", "")]
    assert log.run.todos == (two,)
    board.todos = [two]  # another list with the same todos
    check.look()
    assert len(todo_changes(log.run)) == 1


@pytest.mark.req("R0.44")
def test_emptied_list_is_logged_as_a_change() -> None:
    board = ForeignBoard()
    check, log = checked(board, Todo(1, "Look"))
    check.look()
    assert [(event.todos, event.by, event.call_id) for event in todo_changes(log.run)] == [((), "outside", "")]


def test_nothing_is_read_or_written_without_a_board() -> None:
    check, log = checked(None, Todo(1, "Look"))
    check.look()
    assert len(log.run.events) == 1


@pytest.mark.req("R0.45")
def test_unreadable_board_keeps_the_last_list_with_one_warning() -> None:
    board = ForeignBoard(Todo(1, "Look"))
    check, log = checked(board, Todo(1, "Look"))
    board.error = OSError("no net \ud800")
    for _ in range(3):
        check.look()
    assert log.run.todos == (Todo(1, "Look"),)
    (warning,) = log.run.warnings
    assert "OSError: no net" in warning and "last known list" in warning


@pytest.mark.req("R0.45")
@pytest.mark.parametrize("meanwhile", [(Todo(1, "Look"),), (Todo(1, "Look", DONE),)])
def test_board_failing_again_after_recovery_warns_again(meanwhile: Todos) -> None:
    board = ForeignBoard(Todo(1, "Look"))
    check, log = checked(board, Todo(1, "Look"))
    same = board.todos
    check.look()
    board.error = OSError("no net")
    check.look()
    board.error, board.todos = None, same if meanwhile == same else meanwhile
    check.look()
    board.error = OSError("gone")
    check.look()
    assert [warning.partition("(")[2].partition(")")[0] for warning in log.run.warnings] == ["OSError: no net", "OSError: gone"]
    assert log.run.todos == meanwhile


@pytest.mark.req("R0.45")
def test_invalid_todo_list_counts_as_unreadable(subtests: pytest.Subtests) -> None:
    for held in [None, 5, ["a title"], [{"id": 1, "title": "Look"}], (Todo(1, "Look"), None)]:
        with subtests.test(held=held):
            board = ForeignBoard(Todo(1, "Look"))
            check, log = checked(board, Todo(1, "Look"))
            board.todos = held
            check.look()
            assert (log.run.todos, len(log.run.warnings)) == ((Todo(1, "Look"),), 1)


ODD: dict[str, dict[str, Any]] = {
    "in capitals": {"status": "Completed"},
    "with an underscore": {"status": "In_Progress"},
    "of no status": {"status": "who knows"},
    "numbered with a text": {"id": "1"},
    "half a character": {"title": "half \ud83d"},
    "no number": {"progress": float("nan")},
    "a list for a tuple": {"dependencies": [2]},
    "with a time": {"created_at": datetime(2026, 1, 1, tzinfo=UTC)},
}


@pytest.mark.req("R0.45", "K0.8")
def test_log_stays_readable_with_any_content_of_a_foreign_board(
    subtests: pytest.Subtests, tmp_path_factory: pytest.TempPathFactory
) -> None:
    def check(odd: str, from_the_beginning: bool, tmp_path: Path) -> None:
        board, store = ForeignBoard(Todo(2, "See", DONE)), Store(tmp_path)

        def hang() -> None:
            board.todos = (Todo(**{"id": 1, "title": "Look", **ODD[odd]}),)

        if from_the_beginning:
            hang()
        model = ScriptedModel([ToolCall("hang"), "Done.", "Done.", "Done.", "Done."])
        run = Agent(model, tools=[hang], todos=board, policy="minimal").run_sync("go", store=store)
        assert run.status in ("completed", "stopped")
        assert store.load(run.id) == run
        assert Run.from_events(run.events) == run

    for odd, from_the_beginning in itertools.product(ODD, [True, False]):
        with subtests.test(odd=odd, from_the_beginning=from_the_beginning):
            check(odd, from_the_beginning, tmp_path_factory.mktemp("case"))


@pytest.mark.req("K0.8")
def test_log_stays_readable_with_any_handwritten_board(
    subtests: pytest.Subtests, tmp_path_factory: pytest.TempPathFactory
) -> None:
    def check(odd: str, tmp_path: Path) -> None:
        board, store = TodoBoard(), Store(tmp_path)

        def hang() -> None:
            board.change(lambda todos: (Todo(**{"id": 1, "title": "Look", **ODD[odd]}),))

        model = ScriptedModel([ToolCall("hang"), *["Done."] * 4])
        run = Agent(model, tools=[hang], todos=board, policy="minimal").run_sync("go", store=store)
        assert store.load(run.id) == run

    for odd in ODD:
        with subtests.test(odd=odd):
            check(odd, tmp_path_factory.mktemp("case"))


@pytest.mark.req("K0.8")
@pytest.mark.parametrize("status", ["Completed", "COMPLETED"])
def test_todo_completed_elsewhere_in_capitals_lets_the_run_end(status: str) -> None:
    board = ForeignBoard(Todo(1, "Look", status))  # type: ignore[arg-type]
    run = Agent(ScriptedModel(["Done."]), todos=board).run_sync("go")
    assert (run.stop_reason, len(run.rounds)) == ("natural", 1)
