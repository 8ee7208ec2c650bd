"""The tool as a model meets it: what it is told, what it may send, what it reads back."""

from __future__ import annotations

import asyncio
import copy
import json
from itertools import product
from pathlib import Path
from typing import Any

import msgspec
import pytest
from asserted_sentences import Snapshot
from hypothesis import given
from hypothesis import strategies as st
from property_settings import examples

from agentnb.core.schema.json_schema import check_schema, schema_problems
from agentnb.core.todos import TODO_TOOL, Todo, Todos, format_count, format_list
from agentnb.runtime.workers.worker_calls import call_in_thread
from agentnb.tools.function import as_tool
from agentnb.tools.todos.board import TodoBoard
from agentnb.tools.todos.todo_tool import TodoTool
from agentnb.tools.tool import ToolContext, ToolOutcome

CONTEXT = ToolContext("r-1", "toolu_1", Path("data"), call_in_thread)
OPERATIONS = "read, write, update, add"


def call(board: TodoBoard, arguments: Any) -> ToolOutcome:
    return asyncio.run(TodoTool(board).run(arguments, CONTEXT))


def three() -> TodoBoard:
    return TodoBoard([Todo(1, "Load the data", "completed"), Todo(2, "Describe it", "in-progress"), Todo(3, "Plot it")])


def refused(board: TodoBoard, arguments: Any, code: str) -> str:
    before = board.read()
    outcome = call(board, arguments)
    assert (outcome.ok, outcome.error_code, outcome.value) == (False, code, None)
    assert board.read() is before
    assert shows(outcome.text, before)
    return outcome.text


def shows(text: str, todos: Todos) -> bool:
    return not todos or text.endswith(f"\n\nTodos ({format_count(todos)}):\n{format_list(todos)}")


@pytest.mark.req("R0.62", "KX.12", "R0.55")
def test_tool_is_never_parallel() -> None:
    tool = TodoTool(TodoBoard())
    assert as_tool(tool) is tool
    assert tool.spec.name == TODO_TOOL == "todo_operations"
    assert (tool.parallel_safe, tool.blocking, tool.timeout, tool.effects) == (False, False, None, frozenset())


@pytest.mark.req("R0.55", "R0.56")
def test_schema_names_parameters_and_describes_every_field() -> None:
    schema = TodoTool(TodoBoard()).spec.input_schema
    check_schema(schema, "It", "")
    properties = schema["properties"]
    assert list(properties) == ["operation", "todoList", "todoUpdates", "newTodos"]
    assert schema["required"] == ["operation"]
    assert properties["operation"]["enum"] == ["read", "write", "update", "add"]
    fields = [field.encode_name for field in msgspec.structs.fields(Todo)][:-2]
    required = {"todoList": ["id", "title", "status"], "todoUpdates": ["id"], "newTodos": ["title"]}
    for name, needed in required.items():
        items = properties[name]["items"]
        assert items["required"] == needed
        assert sorted(items["properties"]) == sorted(fields if name != "newTodos" else fields[1:])
        assert all(one["description"] for one in (properties[name], *items["properties"].values()))
    assert properties["newTodos"]["items"]["properties"]["status"]["enum"] == [
        "not-started",
        "in-progress",
        "completed",
        "blocked",
    ]


@pytest.mark.req("R0.54", "R0.55")
def test_description_explains_the_todo_discipline_and_operations() -> None:
    text = TodoTool(TodoBoard()).spec.description
    order = [
        text.index(words) for words in ("in-progress with `update`, before", "Do the work", "completed with `update`", "next")
    ]
    assert order == sorted(order)
    assert all(f"`{name}`" in text for name in ("read", "write", "todoList", "update", "todoUpdates", "add", "newTodos"))
    assert "##" not in text


def test_spec_is_built_once() -> None:
    first, second = TodoTool(TodoBoard()).spec, TodoTool(three()).spec
    assert first is second
    call(three(), {"operation": "read"})
    assert copy.deepcopy(first) == second


@pytest.mark.req("R0.55", "R0.54", "R0.61")
def test_todo_list_is_written_updated_and_completed() -> None:
    board = TodoBoard()
    written = {"operation": "write", "todoList": [{"id": 1, "title": "Load the data", "status": "not-started"}]}
    steps: list[tuple[dict[str, Any], str]] = [
        ({"operation": "read"}, 'There are no todos. Create the list with operation "write".'),
        (written, "Wrote 1 todo.\n\nTodos (0 of 1 completed):\n1. [not-started] Load the data"),
        (
            {"operation": "update", "todoUpdates": [{"id": 1, "status": "in-progress"}]},
            "Updated: 1 applied, 0 failed, 0 redundant.\n- applied: todoUpdates[0] (id 1): not-started -> in-progress\n\n"
            "Todos (0 of 1 completed):\n1. [in-progress] Load the data",
        ),
        (
            {"operation": "update", "todoUpdates": [{"id": 1, "status": "completed"}]},
            "Updated: 1 applied, 0 failed, 0 redundant.\n- applied: todoUpdates[0] (id 1): in-progress -> completed\n"
            'The only todo is completed. For new work use operation "add" with newTodos.\n\n'
            "Todos (1 of 1 completed):\n1. [completed] Load the data",
        ),
        (
            {"operation": "add", "newTodos": [{"title": "Plot it", "description": "In blue"}]},
            "Added 1 todo: id 2.\n\nTodos (1 of 2 completed):\n1. [completed] Load the data\n2. [not-started] Plot it: In blue",
        ),
        (
            {"operation": " Read "},
            "Read 2 todos.\n\nTodos (1 of 2 completed):\n1. [completed] Load the data\n2. [not-started] Plot it: In blue",
        ),
    ]
    for arguments, text in steps:
        outcome = call(board, arguments)
        assert (outcome.ok, outcome.text) == (True, text)
        assert outcome.value.after is board.read()


@pytest.mark.req("R0.58")
def test_partial_update_succeeds_and_reports_failures() -> None:
    board = three()
    entries = [{"id": 2, "status": "completed"}, {"id": 2, "status": "completed"}, {"id": 9, "status": "completed"}]
    outcome = call(board, {"operation": "update", "todoUpdates": entries})
    assert outcome.ok
    assert outcome.text.startswith("Updated: 1 applied, 1 failed, 1 redundant.\n- applied: todoUpdates[0] (id 2): ")
    assert "\n- failed: todoUpdates[2] (id 9): there is no todo 9. Available: 1, 2, 3.\n" in outcome.text
    assert "\n- redundant: todoUpdates[1] (id 2): is already completed\n" in outcome.text
    assert shows(outcome.text, board.read())


@pytest.mark.req("R0.58")
def test_update_with_only_failures_is_an_error_unless_partly_redundant() -> None:
    text = refused(three(), {"operation": "update", "todoUpdates": [{"id": 9, "status": "completed"}, {"id": 3}]}, "todo_error")
    assert text.startswith("Updated: 0 applied, 2 failed, 0 redundant.\n- failed: todoUpdates[0] (id 9): there is no todo 9.")
    board = three()
    before = board.read()
    outcome = call(board, {"operation": "update", "todoUpdates": [{"id": 1, "status": "completed"}, {"id": 9, "status": "x"}]})
    assert outcome.ok and board.read() is before


@pytest.mark.req("R0.58")
def test_update_without_a_list_is_refused(snapshot: Snapshot) -> None:
    text = refused(TodoBoard(), {"operation": "update", "todoUpdates": [{"id": 1, "status": "completed"}]}, "todo_error")
    assert text == snapshot


@pytest.mark.req("R0.57")
def test_dropped_completed_todos_are_refused_with_the_current_list() -> None:
    sent = {"operation": "write", "todoList": [{"id": 2, "title": "New", "status": "not-started"}]}
    assert '- id 1 "Load the data" is completed, but here it is missing' in refused(three(), sent, "todo_error")


@pytest.mark.req("R0.57")
def test_list_with_invalid_items_is_refused_with_an_example() -> None:
    text = refused(three(), {"operation": "write", "todoList": [{"id": 4, "title": "New"}]}, "invalid_arguments")
    assert "\n- todoList[0] (id 4): status is missing\nFor example: {" in text


@pytest.mark.req("R0.55")
def test_invalid_operation_error_lists_the_four_operations(subtests: pytest.Subtests) -> None:
    cases = [
        ({}, f"operation is missing: give one of {OPERATIONS}."),
        ({"operation": None}, f"operation is missing: give one of {OPERATIONS}."),
        ({"operation": "delete"}, f'operation must be one of {OPERATIONS}, not "delete".'),
        ({"operation": ["read"]}, f'operation must be one of {OPERATIONS}, not ["read"].'),
        ({"operation": {}}, f"operation must be one of {OPERATIONS}, not {{}}."),
        ("read", f'The arguments must be an object with operation, one of {OPERATIONS}, not "read".'),
        (None, f"The arguments must be an object with operation, one of {OPERATIONS}, not null."),
        ({"operation": "read", "id": 3}, 'There is no parameter "id".'),
    ]
    for arguments, said in cases:
        with subtests.test(arguments=arguments):
            text = refused(three(), arguments, "invalid_arguments")
            assert text.startswith(said)
            assert '\nFor example: {"operation": "read"}\n\nTodos (' in text


@pytest.mark.req("R0.55")
def test_missing_parameter_is_named_with_a_working_example(subtests: pytest.Subtests) -> None:
    cases = [("write", "todoList"), ("update", "todoUpdates"), ("add", "newTodos")]
    for (operation, parameter), other in product(cases, [{}, {"todos": []}, {"same": None}]):
        with subtests.test(operation=operation, other=other):
            arguments = {"operation": operation, **({parameter: None} if "same" in other else other)}
            text = refused(three(), arguments, "invalid_arguments")
            assert f"Operation {operation} needs {parameter}." in text
            assert ('There is no parameter "todos". Did you mean' in text) == ("todos" in other)
            example = json.loads(text.split("For example: ")[1].split("\n")[0])
            assert list(schema_problems(TodoTool(three()).spec.input_schema, example)) == []
            assert call(TodoBoard(["Load the data"]), example).ok


@pytest.mark.req("R0.55")
def test_updates_given_as_text_or_without_brackets_are_accepted(subtests: pytest.Subtests) -> None:
    cases = [
        {"operation": "update", "todoUpdates": '[{"id": 2, "status": "completed"}]'},
        {"operation": "update", "todoUpdates": ['{"id": 2, "status": "completed"}']},
        {"operation": "update", "todoUpdates": {"id": 2, "status": "completed"}},
        '{"operation": "update", "todoUpdates": [{"id": 2, "status": "completed"}]}',
    ]
    for arguments in cases:
        with subtests.test(arguments=arguments):
            board = three()
            assert call(board, arguments).ok
            assert board.read()[1].status == "completed"


@pytest.mark.req("R0.55")
def test_unused_list_of_another_operation_is_reported() -> None:
    board = three()
    arguments = {"operation": "update", "todoUpdates": [{"id": 2, "status": "completed"}], "newTodos": [{"title": "More"}]}
    outcome = call(board, arguments | {"todoList": []})
    assert outcome.ok and len(board) == 3
    assert "\nNot used: newTodos. Operation update accepts todoUpdates; call again for the rest.\n" in outcome.text


@pytest.mark.req("R0.44")
def test_next_call_sees_changes_of_the_user() -> None:
    board = three()
    board.complete(2)
    board.add("Ask for the key")
    outcome = call(
        board, {"operation": "update", "todoUpdates": [{"id": 2, "status": "completed"}, {"id": 4, "status": "completed"}]}
    )
    assert "1 applied, 0 failed, 1 redundant" in outcome.text


@pytest.mark.req("R0.44")
def test_user_order_is_kept_until_the_list_is_replaced() -> None:
    board = three()
    board.move(3, before=1)
    assert shows(call(board, {"operation": "read"}).text, tuple(board))
    call(board, {"operation": "update", "todoUpdates": [{"id": 2, "status": "completed"}, {"id": 3, "title": "Draw it"}]})
    assert [todo.id for todo in board] == [3, 1, 2]
    call(board, {"operation": "add", "newTodos": [{"title": "Ask"}]})
    assert [todo.id for todo in board] == [3, 1, 2, 4]
    items = [{"id": todo.id, "title": todo.title, "status": todo.status} for todo in sorted(board, key=lambda todo: todo.id)]
    assert "Wrote 4 todos" in call(board, {"operation": "write", "todoList": items}).text
    assert [todo.id for todo in board] == [1, 2, 3, 4]


def test_reading_works_on_a_read_only_board() -> None:
    class ReadOnly(TodoBoard):
        def change(self, update: Any) -> Todos:
            raise OSError("the board is away")

    board = ReadOnly(["Load"])
    assert call(board, {"operation": "read"}).ok
    with pytest.raises(OSError, match="away"):
        call(board, {"operation": "add", "newTodos": [{"title": "Plot"}]})


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters(), max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["id", "title", "status", "x"]), inner, max_size=3)
    ),
    max_leaves=8,
)
ARGUMENTS = st.fixed_dictionaries(
    {"operation": st.sampled_from(["read", "write", "update", "add"]) | ANYTHING},
    optional=dict.fromkeys(("todoList", "todoUpdates", "newTodos", "other"), ANYTHING),
)


@pytest.mark.req("R0.55")
@examples(200)
@given(ARGUMENTS | ANYTHING)
def test_every_input_is_answered_with_the_current_list(arguments: Any) -> None:
    board = three()
    before = board.read()
    outcome = call(board, arguments)
    assert shows(outcome.text, board.read())
    assert outcome.ok or (board.read() is before and outcome.error_code in ("invalid_arguments", "todo_error"))
    assert msgspec.json.encode((outcome.as_result("toolu_1", TODO_TOOL), board.read()))
