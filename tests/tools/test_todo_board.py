"""A board that the person and the agent change concurrently."""

from __future__ import annotations

import copy
import pickle
import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import msgspec
import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from IPython.lib.pretty import pretty
from property_settings import size
from test_todo_operations import assert_whole

from agentnb.core.todos import Todo, Todos, format_count, format_list
from agentnb.errors import SettingsError
from agentnb.tools.todos.board import Board, TodoBoard, is_board
from agentnb.tools.todos.operations import Refused, add, update

NOW = datetime(2026, 1, 2, tzinfo=UTC)


def board() -> TodoBoard:
    return TodoBoard(["Load the data", "Describe it", "Plot it"])


def statuses(of: Board) -> list[str]:
    return [todo.status for todo in of.read()]


def test_titles_become_todos_numbered_from_one() -> None:
    assert [(todo.id, todo.title, todo.status) for todo in board()] == [
        (1, "Load the data", "not-started"),
        (2, "Describe it", "not-started"),
        (3, "Plot it", "not-started"),
    ]
    assert all(todo.created_at is not None and todo.updated_at is None for todo in board())


def test_todos_and_dicts_are_accepted_by_a_board(subtests: pytest.Subtests) -> None:
    for key in ["blockedReason", "blocked_reason"]:
        with subtests.test(key):
            todo = Todo(4, "Load", "completed", created_at=NOW)
            board = TodoBoard([todo, {"title": "Ask", "status": "Blocked", key: "no key", "dependencies": [4]}, "Plot"]).read()
            assert board[0] == todo
            assert (board[1].id, board[1].status, board[1].blocked_reason, board[1].dependencies) == (
                5,
                "blocked",
                "no key",
                (4,),
            )
            assert (board[2].id, board[2].title) == (6, "Plot")
            assert TodoBoard(board).read() == board
            assert TodoBoard(msgspec.to_builtins(board)).read() == board
            assert TodoBoard().read() == ()


@pytest.mark.req("R0.60")
def test_invalid_entries_are_refused(subtests: pytest.Subtests) -> None:
    cases = [
        ("Load the data", "they are not a list"),
        ([3], "todos[0]: must be a title, a dict or a Todo, not int"),
        ([{"id": 1}], "todos[0] (id 1): title is missing"),
        (["a", {"title": "b", "state": "completed"}], 'todos[1]: unknown field "state". Did you mean status'),
        ([Todo(1, "a"), Todo(1, "b")], "todos[1] (id 1): the id 1 is used"),
        ([Todo(1, "a", "done")], "status must be one of"),  # type: ignore[arg-type]
        ([Todo(1, "a", "blocked")], "needs blockedReason"),
        ([Todo(1, "a", dependencies=(2,))], "do not exist: 2"),
        ([Todo(1, "a", dependencies=(2,)), Todo(2, "b", dependencies=(1,))], "are circular"),
        ([Todo(1, "a", progress=2.0)], "from 0 to 1"),
    ]
    for todos, said in cases:
        with subtests.test(todos=todos):
            with pytest.raises(SettingsError) as caught:
                TodoBoard(todos)
            assert said in str(caught.value)
            assert caught.value.hint


@pytest.mark.req("R0.44", "R0.54")
def test_user_moves_a_todo_through_all_statuses() -> None:
    mine = board()
    assert mine.start(2).status == "in-progress"
    assert mine.block(2, " no key ").blocked_reason == "no key"
    assert mine.read()[1].status == "blocked"
    assert (mine.complete(2).status, mine.read()[1].blocked_reason) == ("completed", None)
    assert mine.reopen(2).status == "not-started"
    assert statuses(mine) == ["not-started"] * 3
    assert [todo.updated_at is not None for todo in mine] == [False, True, False]


def test_user_can_add_and_edit_todos() -> None:
    mine = board()
    new = mine.add("Write it up", "Two pages", priority="high", dependencies=[3])
    assert (new.id, new.title, new.description, new.priority, new.dependencies) == (4, "Write it up", "Two pages", "high", (3,))
    assert mine.read()[-1] is new and new.created_at is not None
    changed = mine.edit(4, title="Write", canRunParallel=True, progress=0.5, priority=None)
    assert (changed.title, changed.can_run_parallel, changed.progress, changed.priority) == ("Write", True, 0.5, None)
    assert mine.edit(4, dependencies=None).dependencies == ()
    assert TodoBoard().add("First").id == 1


def test_user_can_remove_completed_todos() -> None:
    mine = TodoBoard([Todo(1, "a", "completed"), Todo(2, "b", dependencies=(1,)), Todo(3, "c", dependencies=(2, 1))])
    assert mine.remove(1).title == "a"
    assert [(todo.id, todo.dependencies) for todo in mine] == [(2, ()), (3, (2,))]
    assert mine.read()[0].updated_at is not None


def test_user_moves_a_todo_before_another_or_to_the_end(subtests: pytest.Subtests) -> None:
    cases = [
        (3, 1, [3, 1, 2]),
        (1, 3, [2, 1, 3]),
        (2, 1, [2, 1, 3]),
        (1, None, [2, 3, 1]),
        (1, 2, [1, 2, 3]),
        (3, None, [1, 2, 3]),
        (2, 2, [1, 2, 3]),
    ]
    for number, before, order in cases:
        with subtests.test(number=number, before=before, order=order):
            mine = TodoBoard(
                [Todo(1, "a", "completed", created_at=NOW), Todo(2, "b", dependencies=(3,)), Todo(3, "c", "in-progress")]
            )
            at_first = mine.read()
            assert mine.move(number, before=before) is at_first[number - 1]
            assert [todo.id for todo in mine] == order
            assert sorted(mine, key=lambda todo: todo.id) == list(at_first), "otherwise unchanged"
            assert (mine.read() is at_first) == (order == [1, 2, 3])


IMPOSSIBLE = [
    (lambda mine: mine.move(9), "There is no todo 9 on the board. Available: 1, 2, 3."),
    (lambda mine: mine.move(1, before=9), "There is no todo 9 on the board. Available: 1, 2, 3."),
    (lambda mine: mine.move(9, before=9), "There is no todo 9 on the board. Available: 1, 2, 3."),
    (lambda mine: mine.move(1, before="2"), "'2' is not a todo number"),
    (lambda mine: mine.complete(9), "There is no todo 9 on the board. Available: 1, 2, 3."),
    (lambda mine: mine.remove(22), "There is no todo 22 on the board. Did you mean 2?"),
    (lambda mine: mine.edit(9, title="x"), "There is no todo 9 on the board."),
    (lambda mine: mine.edit(9), "There is no todo 9 on the board."),
    (lambda mine: mine.block(1, " "), 'Todo 1 cannot be blocked without a reason. board.block(1, "'),
    (lambda mine: mine.edit(1, status="blocked"), "Todo 1 was not changed: a blocked todo needs blockedReason"),
    (lambda mine: mine.edit(1, prio="high"), 'Todo 1 was not changed: unknown field "prio". Did you mean priority'),
    (lambda mine: mine.edit(1, status="done"), "Todo 1 was not changed: status must be one of"),
    (lambda mine: mine.edit(1, title=None), "Todo 1 was not changed: title must be a string"),
    (lambda mine: mine.edit(1, dependencies=[1]), "Todo 1 was not changed: dependencies are circular"),
    (lambda mine: mine.add(""), "Nothing was added: title must be a string"),
    (lambda mine: mine.add("x", id=7), "Nothing was added: the board assigns the ids"),
    (lambda mine: mine.add("x", dependencies=[7]), "dependencies refer to todos that do not exist: 7"),
    (lambda mine: TodoBoard().start(1), "There is no todo 1 on the board. It is empty: board.add("),
]


def test_impossible_change_is_refused_with_a_hint(subtests: pytest.Subtests) -> None:
    for act, said in IMPOSSIBLE:
        with subtests.test(said):
            mine = board()
            before = mine.read()
            with pytest.raises(SettingsError) as caught:
                act(mine)
            assert str(caught.value).startswith(said) or said in str(caught.value)
            assert caught.value.hint
            assert mine.read() is before


@pytest.mark.req("R0.43")
def test_board_returns_the_same_tuple_until_a_change() -> None:
    mine = board()
    before = mine.read()
    assert mine.read() is before
    mine.change(lambda todos: tuple([msgspec.structs.replace(todo) for todo in todos]))
    mine.edit(1, status="not-started")
    mine.edit(2)
    mine.reopen(3)
    assert mine.read() is before
    assert mine.change(lambda todos: todos) is before
    mine.start(1)
    assert mine.read() is not before


def test_failed_change_raises_and_leaves_the_board_unchanged() -> None:
    mine = board()
    before = mine.read()

    def fail(todos: Todos) -> Todos:
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        mine.change(fail)
    with pytest.raises(Refused):
        mine.change(lambda todos: add(todos, [{"title": ""}], NOW)[0])
    assert mine.read() is before
    assert mine.start(1).status == "in-progress"


def test_nested_change_is_refused_without_a_deadlock() -> None:
    mine = board()
    before = mine.read()

    def nested(todos: Todos) -> Todos:
        mine.start(1)
        return todos

    with pytest.raises(SettingsError, match="already being changed by this function"):
        mine.change(nested)
    assert mine.read() is before
    assert mine.start(1).status == "in-progress"


@pytest.mark.req("R0.44")
def test_reading_does_not_wait_for_a_change() -> None:
    mine = board()
    inside, go_on = threading.Event(), threading.Event()

    def slow(todos: Todos) -> Todos:
        inside.set()
        assert go_on.wait(30)
        return todos[:1]

    changing = threading.Thread(target=mine.change, args=(slow,))
    changing.start()
    assert inside.wait(30)
    seen: list[int] = []
    reading = threading.Thread(target=lambda: seen.append(len(mine.read())), daemon=True)
    reading.start()
    reading.join(10)
    assert seen == [3]
    go_on.set()
    changing.join()
    assert len(mine) == 1


@pytest.mark.req("R0.44")
def test_concurrent_changes_lose_nothing() -> None:
    mine, changes = TodoBoard(["Count"]), size(20, nightly=50)
    errors: list[BaseException] = []
    together = threading.Barrier(8)

    def work(mark: int) -> None:
        try:
            together.wait()
            for number in range(changes):
                done = mine.add(f"{mark} {number}", dependencies=[1])
                mine.start(done.id)
                mine.change(lambda todos, done=done.id: update(todos, [{"id": done, "status": "completed"}], NOW)[0])
                if number % 2:
                    mine.remove(done.id)
                assert_whole(mine.read())
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(mark,)) for mark in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    assert sorted(todo.title for todo in mine) == sorted(
        ["Count", *(f"{m} {n}" for m in range(8) for n in range(0, changes, 2))]
    )
    assert statuses(mine).count("completed") == 4 * changes


def test_concurrent_increments_of_one_todo_lose_nothing() -> None:
    mine = TodoBoard([{"title": "Count", "description": "0"}])

    def count(todos: Todos) -> Todos:
        before = int(todos[0].description)
        time.sleep(0)  # lets other threads run between reading and writing
        return (msgspec.structs.replace(todos[0], description=str(before + 1)),)

    threads = [threading.Thread(target=lambda: [mine.change(count) for _ in range(100)]) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert mine.read()[0].description == "600"


def test_board_display_shows_its_todos() -> None:
    mine = board()
    mine.complete(1)
    assert (len(mine), [todo.id for todo in mine]) == (3, [1, 2, 3])
    assert pretty(mine) == format_list(mine.read())
    assert repr(mine) == f"<TodoBoard: {format_count(mine.read())}>" == "<TodoBoard: 1 of 3 completed>"
    assert pretty(TodoBoard()) == repr(TodoBoard()) == "<TodoBoard: empty>"
    assert TodoBoard(), "an empty board is a board"


def test_any_object_with_read_and_change_is_a_board() -> None:
    class Mine:
        def read(self) -> Todos:
            return ()

        def change(self, update: Callable[[Todos], Todos]) -> Todos:
            return update(())

    assert is_board(TodoBoard()) and is_board(Mine())
    for other in (TodoBoard, Mine, None, True, (), ["Load"], {"read": 1}, "read"):
        assert not is_board(other)


NUMBERS = st.integers(0, 5)
ACTS = st.one_of(
    st.tuples(st.sampled_from(["start", "complete", "reopen", "remove"]), st.tuples(NUMBERS), st.just({})),
    st.tuples(st.just("move"), st.tuples(NUMBERS, NUMBERS | st.none()), st.just({})),
    st.tuples(st.just("block"), st.tuples(NUMBERS, st.sampled_from(["", "no key"])), st.just({})),
    st.tuples(
        st.sampled_from(["edit", "add"]),
        st.tuples(NUMBERS),
        st.fixed_dictionaries(
            {},
            optional={
                "dependencies": st.lists(NUMBERS, max_size=3) | st.none(),
                "status": st.sampled_from(["blocked", "COMPLETED", "x", None]),
                "blocked_reason": st.sampled_from(["no key", "", None]),
                "progress": st.floats(-1, 2),
            },
        ),
    ),
)


@pytest.mark.req("R0.60", "R0.43")
@given(st.lists(ACTS, max_size=12))
def test_board_stays_valid_under_any_user_action(acts: list[Any]) -> None:
    mine = board()
    for name, arguments, fields in acts:
        before = mine.read()
        try:
            todo = getattr(mine, name)(*(map(str, arguments) if name == "add" else arguments), **fields)
        except SettingsError:
            assert mine.read() is before
            continue
        after = mine.read()
        assert_whole(after)
        assert (after is before) == (after == before)
        assert (todo in after) == (name != "remove")


def test_todo_numbers_must_be_integers(subtests: pytest.Subtests) -> None:
    for number in ["1", True, None]:
        with subtests.test(number=number):
            board = TodoBoard(["Look"])
            with pytest.raises(SettingsError, match="is not a todo number"):
                board.complete(number)
            assert board.read()[0].status == "not-started"


def test_values_that_are_not_lists_cannot_become_a_board(subtests: pytest.Subtests) -> None:
    for todos in [None, 5]:
        with subtests.test(todos=todos):
            with pytest.raises(SettingsError, match="they are not a list"):
                TodoBoard(todos)


def test_change_without_todos_changes_nothing(subtests: pytest.Subtests) -> None:
    for changed in [None, ["x"], [{"id": 1}]]:
        with subtests.test(changed=changed):
            board = TodoBoard(["Look"])
            with pytest.raises(SettingsError, match="The board does not accept"):
                board.change(lambda todos, changed=changed: changed)
            assert [todo.title for todo in board] == ["Look"]


def test_copy_is_a_separate_board() -> None:
    board = TodoBoard(["Look"])
    for other in (copy.copy(board), copy.deepcopy(board), pickle.loads(pickle.dumps(board))):
        other.complete(1)
        assert (board.read()[0].status, other.read()[0].status) == ("not-started", "completed")


def test_any_iterable_becomes_todos() -> None:
    titles = ["Load the data", "Describe the data"]
    for many in (titles, tuple(titles), iter(titles), pd.Series(titles), np.array(titles), pd.Index(titles)):
        assert [todo.title for todo in TodoBoard(many)] == titles
    for none in ((), [], iter(()), pd.Series([], dtype=str), np.array([])):
        assert list(TodoBoard(none)) == []
