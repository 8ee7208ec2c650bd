"""Operations of a model on a list of todos, and refusals: pure functions."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from graphlib import TopologicalSorter
from itertools import product
from typing import Any

import msgspec
import pytest
from asserted_sentences import Snapshot
from hypothesis import given
from hypothesis import strategies as st
from property_settings import examples

from agentnb.core.todos import Todo, Todos, is_open
from agentnb.tools.todos.operations import Refused, Report, add, read, update, write

EARLIER = datetime(2026, 1, 2, 3, 4, tzinfo=UTC)
NOW = EARLIER + timedelta(hours=1)

LOAD = Todo(1, "Load the data", "completed", created_at=EARLIER, updated_at=EARLIER)
DESCRIBE = Todo(2, "Describe it", "in-progress", created_at=EARLIER)
PLOT = Todo(3, "Plot it", created_at=EARLIER)
THREE = (LOAD, DESCRIBE, PLOT)


def item(number: int, title: str = "Do it", status: str = "not-started", **more: Any) -> dict[str, Any]:
    return {"id": number, "title": title, "status": status, **more}


def refused(operation: Callable[..., Any], todos: Todos, given: Any) -> Refused:
    with pytest.raises(Refused) as caught:
        operation(todos, given, NOW)
    return caught.value


def one(todos: Todos, **entry: Any) -> tuple[Todos, Report]:
    """Apply an update with one entry."""
    return update(todos, [entry], NOW)


def why_failed(todos: Todos, **entry: Any) -> str:
    after, report = one(todos, **entry)
    assert after is todos
    assert (report.applied, report.redundant, len(report.failed)) == ((), (), 1)
    return report.failed[0]


# write


@pytest.mark.req("R0.57", "R0.56")
def test_write_creates_a_list_with_all_fields_in_order() -> None:
    full = item(
        7,
        "  Load the\ndata ",
        description=" From disk ",
        priority="High",
        dependencies=[3, 3],
        canRunParallel=True,
        parallelGroup="io",
        progress=0.5,
    )
    after, report = write((), [full, item(3, "Wait", "blocked", blockedReason="no key")], NOW)
    assert after == (
        Todo(7, "Load the data", "not-started", "From disk", "high", (3,), True, "io", 0.5, None, NOW),
        Todo(3, "Wait", "blocked", blocked_reason="no key", created_at=NOW),
    )
    assert report == Report("Wrote 2 todos.")


@pytest.mark.req("R0.56")
def test_surrogates_are_replaced_in_a_list() -> None:
    half = item(1, "Plot \ud83d", "blocked", description="as \udc00", blockedReason="\ud83d", parallelGroup="\ud83d")
    todos, _ = write((), [half], NOW)
    assert (todos[0].title, todos[0].description) == ("Plot \N{REPLACEMENT CHARACTER}", "as \N{REPLACEMENT CHARACTER}")
    assert msgspec.json.decode(msgspec.json.encode(todos), type=Todos) == todos


@pytest.mark.req("R0.57")
def test_write_error_names_the_item_and_its_missing_field(subtests: pytest.Subtests) -> None:
    for name, null in product(["id", "title", "status"], [True, False]):
        with subtests.test(name=name, null=null):
            lacking: dict[str, Any] = item(5) | {name: None}
            if not null:
                del lacking[name]
            error = refused(write, THREE, [item(1, LOAD.title, "completed"), lacking])
            label = "todoList[1]" if name == "id" else "todoList[1] (id 5)"
            assert error.problems == (f"{label}: {name} is missing",)
            assert error.code == "invalid_arguments"


@pytest.mark.req("R0.57")
def test_write_lists_all_problems(snapshot: Snapshot) -> None:
    error = refused(
        write, (), [item(1, "", "done"), {"id": "x", "prio": 1}, "Load", item(2, progress="half", priority="urgent")]
    )
    assert error.problems == snapshot
    assert "\n- todoList[2]: must be" in str(error)


@pytest.mark.req("R0.57")
def test_ids_are_unique(snapshot: Snapshot) -> None:
    error = refused(write, (), [item(1), item(2), item(1, "Again")])
    assert error.problems == snapshot


@pytest.mark.req("K0.8", "R0.54")
def test_status_is_accepted_in_any_spelling(subtests: pytest.Subtests) -> None:
    cases = ["In_Progress", "in progress", "IN-PROGRESS", " in-progress "]
    for spelled in cases:
        with subtests.test(spelled):
            assert write((), [item(1, status=spelled)], NOW)[0][0].status == "in-progress"
            assert one((PLOT,), id=3, status=spelled)[0][0].status == "in-progress"
            assert add((), [{"title": "Plot", "status": spelled}], NOW)[0][0].status == "in-progress"


@pytest.mark.req("R0.54")
def test_write_accepts_each_of_the_four_statuses(subtests: pytest.Subtests) -> None:
    for status in ["not-started", "in-progress", "completed", "blocked"]:
        with subtests.test(status):
            after, _ = write((), [item(1, status=status, blockedReason="no key")], NOW)
            assert after[0].status == status
            assert after[0].blocked_reason == ("no key" if status == "blocked" else None)


@pytest.mark.req("R0.57")
def test_completed_todos_cannot_be_dropped(snapshot: Snapshot) -> None:
    error = refused(write, (LOAD, Todo(9, "Ask", "completed"), PLOT), [item(3, "Plot it")])
    assert error.code == "todo_error"
    assert error.problems == snapshot
    assert "add" in error.what
    assert refused(write, (LOAD,), []).problems == error.problems[:1]


@pytest.mark.req("R0.57")
def test_reused_id_of_a_completed_todo_is_refused(snapshot: Snapshot) -> None:
    error = refused(write, (LOAD,), [item(1, "Sell the data")])
    assert error.problems == snapshot


@pytest.mark.req("R0.57")
def test_completed_todo_may_be_reopened_or_renamed() -> None:
    assert write((LOAD,), [item(1, "LOAD the data")], NOW)[0][0].status == "not-started"
    assert write((LOAD,), [item(1, "Load all data", "completed")], NOW)[0][0].title == "Load all data"


@pytest.mark.req("R0.57")
def test_open_todos_may_be_dropped() -> None:
    assert [todo.id for todo in write(THREE, [item(1, LOAD.title, "completed")], NOW)[0]] == [1]


@pytest.mark.req("R0.57")
def test_only_the_first_todo_stays_in_progress_with_a_note(snapshot: Snapshot) -> None:
    after, report = write((), [item(n, status=s) for n, s in ((4, "completed"), *((n, "in-progress") for n in (5, 6, 7)))], NOW)
    assert [todo.status for todo in after] == ["completed", "in-progress", "not-started", "not-started"]
    assert report.notes == snapshot


@pytest.mark.req("R0.56")
def test_write_keeps_creation_time_and_timestamps_changes() -> None:
    after, _ = write(THREE, [item(1, LOAD.title, "completed"), item(2, DESCRIBE.title, "completed"), item(4)], NOW)
    assert [(todo.created_at, todo.updated_at) for todo in after] == [(EARLIER, EARLIER), (EARLIER, NOW), (NOW, None)]


@pytest.mark.req("R0.57")
def test_writing_an_identical_list_changes_nothing() -> None:
    same = [item(todo.id, todo.title, todo.status) for todo in THREE]
    after, report = write(THREE, same, NOW)
    assert after is THREE
    assert "unchanged" in report.headline


@pytest.mark.req("R0.57")
def test_list_without_completed_todos_may_be_emptied() -> None:
    assert write((PLOT,), [], NOW)[0] == ()


# update


@pytest.mark.req("R0.58")
def test_update_without_a_list_asks_to_write_it_first(subtests: pytest.Subtests) -> None:
    for changes in [[{"id": 1, "status": "completed"}], [], None]:
        with subtests.test(changes=changes):
            error = refused(update, (), changes)
            assert error.code == "todo_error"
            assert "Create it first" in error.what and "write" in error.what


@pytest.mark.req("R0.58")
def test_valid_part_of_an_update_is_applied(snapshot: Snapshot) -> None:
    entries = [
        {"id": 2, "status": "completed"},
        {"id": 9, "status": "completed"},
        {"id": 1, "status": "completed"},
        {"id": 3, "status": "in-progress"},
    ]
    after, report = update(THREE, entries, NOW)
    assert [todo.status for todo in after] == ["completed", "completed", "in-progress"]
    assert [todo.updated_at for todo in after] == [EARLIER, NOW, NOW]
    assert report.headline == snapshot
    assert report.applied == snapshot
    assert report.failed == snapshot
    assert report.redundant == snapshot


@pytest.mark.req("R0.58")
def test_update_to_the_same_status_changes_nothing(snapshot: Snapshot) -> None:
    after, report = one(THREE, id=2, status="in_progress")
    assert after is THREE
    assert report.redundant == snapshot
    assert report.applied == report.failed == ()


@pytest.mark.req("R0.58")
def test_same_status_with_another_change_is_not_redundant() -> None:
    after, report = one(THREE, id=2, status="in-progress", progress=0.5)
    assert after[1] == msgspec.structs.replace(DESCRIBE, progress=0.5, updated_at=NOW)
    assert report.applied == ("todoUpdates[0] (id 2): progress changed",)


@pytest.mark.req("R0.56", "R0.58")
def test_update_may_change_every_field_and_keeps_the_others(subtests: pytest.Subtests) -> None:
    cases = [
        ("title", "Draw it", "title", "Draw it"),
        ("description", "In blue", "description", "In blue"),
        ("priority", "CRITICAL", "priority", "critical"),
        ("dependencies", [1, 2], "dependencies", (1, 2)),
        ("dependencies", "[1]", "dependencies", (1,)),
        ("canRunParallel", False, "can_run_parallel", False),
        ("can_run_parallel", True, "can_run_parallel", True),
        ("parallelGroup", "plots", "parallel_group", "plots"),
        ("progress", 1, "progress", 1.0),
        ("progress", "0.25", "progress", 0.25),
    ]
    for name, value, attribute, kept in cases:
        with subtests.test(name=name, value=value, attribute=attribute, kept=kept):
            after, _ = one(THREE, id="3", **{name: value})
            assert after == (LOAD, DESCRIBE, msgspec.structs.replace(PLOT, updated_at=NOW, **{attribute: kept}))


@pytest.mark.req("R0.58")
def test_null_and_reserved_fields_leave_a_todo_unchanged() -> None:
    todos = (msgspec.structs.replace(PLOT, priority="high"),)
    after, report = one(todos, id=3, status="not-started", priority=None, title=None, createdAt="yesterday", conversationId="c")
    assert after is todos and report.redundant


WRONG_ENTRIES = [
    ({"id": 3, "status": "blocked"}, "a blocked todo needs blockedReason"),
    ({"id": 3, "blockedReason": "no key"}, "it is not blocked"),
    ({"id": 3, "dependencies": [1, 8]}, "dependencies refer to todos that do not exist: 8"),
    ({"id": 3, "dependencies": [3]}, "dependencies are circular: 3 waits for 3"),
    ({"id": 3, "progress": 1.01}, "progress must be a number from 0 to 1"),
    ({"id": 3, "progress": -0.1}, "progress must be a number from 0 to 1"),
    ({"id": 3, "progress": "nan"}, "progress must be a number from 0 to 1"),
    ({"id": 3, "status": "done"}, 'status must be one of not-started, in-progress, completed, blocked, not "done"'),
    ({"id": 3, "title": "  "}, "title must be a string"),
    ({"id": 3, "state": "completed"}, 'unknown field "state". Did you mean status'),
    ({"id": 3}, "nothing to change"),
    ({"status": "completed"}, "id is missing"),
    ({"id": "third", "status": "completed"}, "id must be a whole number"),
    (3, "must be an object"),
]


@pytest.mark.req("R0.58", "R0.60")
def test_invalid_entry_fails_with_its_reason_and_others_apply(subtests: pytest.Subtests) -> None:
    for entry, reason in WRONG_ENTRIES:
        with subtests.test(entry=entry):
            after, report = update(THREE, [entry, {"id": 2, "status": "completed"}], NOW)
            assert (after[0], after[1].status, after[2]) == (LOAD, "completed", PLOT)
            assert len(report.applied) == len(report.failed) == 1
            assert report.failed[0].startswith("todoUpdates[0]") and reason in report.failed[0]


@pytest.mark.req("R0.60")
def test_dependency_cycle_of_any_length_is_detected() -> None:
    todos = (Todo(1, "a", dependencies=(2,)), Todo(2, "b", dependencies=(3,)), Todo(3, "c"), Todo(4, "d"))
    assert why_failed(todos, id=3, dependencies=[4, 1]).endswith(
        "dependencies are circular: 3 waits for 1 waits for 2 waits for 3"
    )
    assert one(todos, id=3, dependencies=[4])[1].applied


@pytest.mark.req("R0.58")
def test_leaving_the_blocked_status_clears_the_reason() -> None:
    todos = (Todo(1, "Ask", "blocked", blocked_reason="no key"),)
    after, _ = one(todos, id=1, status="in-progress")
    assert (after[0].status, after[0].blocked_reason) == ("in-progress", None)
    assert one(todos, id=1, status="blocked")[1].redundant
    assert one(todos, id=1, blockedReason="no\n time")[0][0].blocked_reason == "no time"
    assert "needs blockedReason" in why_failed(todos, id=1, blockedReason="")


@pytest.mark.req("R0.58")
def test_update_entries_apply_in_order() -> None:
    after, report = update((PLOT,), [{"id": 3, "status": status} for status in ("in-progress", "completed")], NOW)
    assert (after[0].status, len(report.applied)) == ("completed", 2)


@pytest.mark.req("R0.54", "R0.58")
def test_several_todos_in_progress_bring_advice_to_work_on_one(snapshot: Snapshot) -> None:
    after, report = one(THREE, id=3, status="in-progress")
    assert after[2].status == "in-progress"
    assert report.notes == snapshot


@pytest.mark.req("R0.58")
def test_previously_invalid_todo_can_be_completed() -> None:
    todos = (Todo(1, "Of another board", dependencies=(8,)),)
    assert one(todos, id=1, status="completed")[0][0].status == "completed"


# add


@pytest.mark.req("R0.59")
def test_add_appends_todos_with_the_next_ids() -> None:
    todos = (Todo(5, "First", "in-progress"), Todo(2, "Second", "completed"))
    after, report = add(
        todos, [{"title": "Third"}, {"title": "Fourth", "dependencies": [6, 2], "status": "blocked", "blockedReason": "x"}], NOW
    )
    assert after[:2] == todos
    assert after[2:] == (
        Todo(6, "Third", created_at=NOW),
        Todo(7, "Fourth", "blocked", dependencies=(6, 2), blocked_reason="x", created_at=NOW),
    )
    assert report.headline == "Added 2 todos: ids 6 to 7."
    assert add((), {"title": "Alone"}, NOW)[1].headline == "Added 1 todo: id 1."


@pytest.mark.req("R0.59", "R0.60")
def test_add_refuses_every_todo_if_one_is_invalid(subtests: pytest.Subtests) -> None:
    cases = [
        ({}, "newTodos[1]: title is missing"),
        ({"title": ""}, 'newTodos[1]: title must be a string of three to seven words, not ""'),
        (
            {"title": "a", "status": "open"},
            'newTodos[1]: status must be one of not-started, in-progress, completed, blocked, not "open"',
        ),
        ({"title": "a", "id": 9}, "newTodos[1]: its id will be 5: leave id out"),
        ({"title": "a", "status": "blocked"}, "newTodos[1] (id 5): a blocked todo needs blockedReason"),
        ({"title": "a", "dependencies": [6]}, "newTodos[1] (id 5): dependencies refer to todos that do not exist: 6"),
        ({"title": "a", "dependencies": [5]}, "newTodos[1] (id 5): dependencies are circular: 5 waits for 5"),
    ]
    for new, problem in cases:
        with subtests.test(new=new):
            error = refused(add, THREE, [{"title": "Fine", "id": 4}, new])
            assert (error.problems, error.code) == ((problem,), "invalid_arguments")


# what all have in common


@pytest.mark.req("R0.61")
def test_completed_list_suggests_adding_new_work() -> None:
    said = ('All 2 todos are completed. For new work use operation "add" with newTodos.',)
    done = (LOAD, msgspec.structs.replace(PLOT, status="completed"))
    assert one((LOAD, PLOT), id=3, status="completed")[1].notes == said
    assert one(done, id=3, status="completed")[1].notes == said
    assert read(done)[1].notes == said
    assert write((), [item(1, status="completed"), item(2, status="completed")], NOW)[1].notes == said
    assert add((LOAD,), [{"title": "a", "status": "completed"}], NOW)[1].notes == said
    for report in (read(THREE)[1], one(THREE, id=2, status="completed")[1], add(done, [{"title": "a"}], NOW)[1]):
        assert report.notes == ()
    assert read(())[1].notes == ()


@pytest.mark.req("R0.55")
def test_values_other_than_lists_are_refused_naming_the_parameter(subtests: pytest.Subtests) -> None:
    cases = [(write, "todoList"), (update, "todoUpdates"), (add, "newTodos")]
    for (operation, parameter), value in product(cases, [None, 3, "Load the data", "[broken"]):
        with subtests.test(parameter, value=value):
            error = refused(operation, THREE, value)
            assert error.what.startswith(f"{parameter} must be a list of objects")
            assert error.code == "invalid_arguments"


@pytest.mark.req("R0.55")
def test_empty_list_of_changes_is_refused(subtests: pytest.Subtests) -> None:
    for operation, parameter in [(update, "todoUpdates"), (add, "newTodos")]:
        with subtests.test(parameter):
            assert refused(operation, THREE, []).what == f"{parameter} is empty"


NUMBERS = st.integers(0, 5)
FIELDS: dict[str, Any] = {
    "status": st.sampled_from(["not-started", "In_Progress", "completed", "blocked", "done", 3]),
    "title": st.sampled_from(["Load the data", "Plot", "", "half \ud83d", None]),
    "dependencies": st.lists(NUMBERS, max_size=3) | st.just("no"),
    "progress": st.floats() | st.none(),
    "blockedReason": st.sampled_from(["no key", ""]),
    "priority": st.sampled_from(["low", "HIGH", "most"]),
    "other": st.just(1),
}
CHANGES = st.fixed_dictionaries({"id": NUMBERS}, optional=FIELDS)
WRITTEN = st.fixed_dictionaries(
    {
        "id": NUMBERS,
        "title": st.sampled_from(["a", "b"]),
        "status": st.sampled_from(["not-started", "in-progress", "completed"]),
    },
    optional={"dependencies": st.lists(NUMBERS, max_size=2)},
)
STEPS = st.one_of(
    st.tuples(st.just(write), st.lists(WRITTEN, max_size=4) | st.lists(CHANGES, max_size=3)),
    st.tuples(st.just(update), st.lists(CHANGES, max_size=4)),
    st.tuples(st.just(add), st.lists(st.fixed_dictionaries({}, optional=FIELDS), max_size=3)),
)


def assert_whole(todos: Todos) -> None:
    ids = [todo.id for todo in todos]
    assert len(set(ids)) == len(ids)
    assert msgspec.json.decode(msgspec.json.encode(todos), type=Todos) == todos
    for todo in todos:
        assert todo.title and todo.created_at is not None
        assert set(todo.dependencies) <= set(ids)
        assert (todo.blocked_reason is not None) == (todo.status == "blocked")
        assert todo.progress is None or 0 <= todo.progress <= 1
    TopologicalSorter({todo.id: todo.dependencies for todo in todos}).prepare()


@pytest.mark.req("R0.57", "R0.58", "R0.59", "R0.60")
@examples(200)
@given(st.lists(STEPS, max_size=12))
def test_list_stays_valid_and_keeps_completed_todos_after_any_input(steps: list[Any]) -> None:
    todos: Todos = ()
    for index, (operation, sent) in enumerate(steps):
        before = todos
        try:
            todos, report = operation(before, sent, NOW + timedelta(seconds=index))
        except Refused as error:
            assert error.what
            continue
        assert_whole(todos)
        assert (todos is before) == (todos == before)
        kept = {todo.id: todo for todo in todos}
        assert all(
            not is_open(kept[todo.id]) or operation is update or kept[todo.id].title == todo.title
            for todo in before
            if not is_open(todo)
        )
        if operation is write:
            assert sum(todo.status == "in-progress" for todo in todos) <= 1 or todos is before
        if operation is update:
            assert len(report.applied) + len(report.failed) + len(report.redundant) == len(sent)
        if operation is add:
            assert todos[: len(before)] == before
