"""Todo lists of foreign traces follow from their tool calls."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from agentnb.core.log.events import Origin, TodosChanged
from agentnb.core.messages import ToolCall
from agentnb.core.todos import Todo
from agentnb.interchange.conversion.run_writer import RunWriter

AT = datetime(2026, 1, 1, tzinfo=UTC)


def lists(*calls: tuple[str, Any], is_error: bool = False, **about: Any) -> list[list[tuple[int, str, str]]]:
    """Return the list after each changing call."""
    writer = RunWriter(Origin("test"), **about)
    writer.say("Go")
    for index, (name, arguments) in enumerate(calls):
        writer.reply(None, [ToolCall(name, arguments, f"t{index}")])
        writer.result(f"t{index}", "ok", is_error=is_error, at=AT)
    changes = [event for event in writer.finish().events if isinstance(event, TodosChanged)]
    assert all(event.by == "model" and event.call_id for event in changes)
    return [[(todo.id, todo.title, todo.status) for todo in event.todos] for event in changes]


def test_todo_tool_of_each_product_sets_the_list(subtests: pytest.Subtests) -> None:
    expected = [[(1, "Look", "completed"), (2, "Fix", "in-progress"), (3, "Test", "not-started")]]
    statuses = ("completed", "in_progress", "pending")
    for name, key, title in (
        ("TodoWrite", "todos", "content"),
        ("write_todos", "todos", "description"),
        ("write_todos", "todos", "content"),
        ("update_plan", "plan", "step"),
    ):
        with subtests.test(name, title=title):
            written = [{title: text, "status": status} for text, status in zip(("Look", "Fix", "Test"), statuses, strict=True)]
            assert lists((name, {key: written})) == expected
    with subtests.test("todo_operations"):
        written = [{"id": id, "title": text, "status": status} for id, text, status in expected[0]]
        assert lists(("todo_operations", {"operation": "write", "todoList": written})) == expected


def test_todo_keeps_its_id_when_the_list_is_rewritten() -> None:
    first = {"todos": [{"content": "Look", "status": "completed"}, {"content": "Fix", "status": "pending"}]}
    anew = {"todos": [{"content": "Plan", "status": "completed"}, *first["todos"], {"content": "Fix", "status": "cancelled"}]}
    assert lists(("TodoWrite", first), ("TodoWrite", first), ("TodoWrite", anew)) == [
        [(1, "Look", "completed"), (2, "Fix", "not-started")],
        [(3, "Plan", "completed"), (1, "Look", "completed"), (2, "Fix", "not-started")],
    ]


def test_updates_and_additions_apply_to_an_inherited_list() -> None:
    update = {"operation": "update", "todoUpdates": [{"id": 1, "status": "completed"}, {"id": 9, "status": "completed"}]}
    add = {"operation": "add", "newTodos": [{"title": "Test"}]}
    read = {"operation": "read"}
    before = (Todo(1, "Look", "in-progress"),)
    assert lists(("todo_operations", update), ("todo_operations", add), ("todo_operations", read), todos=before) == [
        [(1, "Look", "completed")],
        [(1, "Look", "completed"), (2, "Test", "not-started")],
    ]


def test_failed_or_invalid_call_changes_no_todo(subtests: pytest.Subtests) -> None:
    written = {"todos": [{"content": "Look", "status": "pending"}]}
    assert lists(("TodoWrite", written), is_error=True) == []
    for arguments in ({}, {"todos": 7}, {"todos": [7]}, {"todos": None}, "no JSON", [1], {"operation": "update"}):
        with subtests.test(arguments=arguments):
            assert lists(("TodoWrite", arguments), ("todo_operations", arguments), ("update_plan", arguments)) == []


def test_recorded_todo_changes_take_precedence_over_calls() -> None:
    writer = RunWriter(Origin("test"))
    writer.say("Go")
    writer.reply(None, [ToolCall("TodoWrite", {"todos": [{"content": "Look"}]}, "t")])
    writer.result("t", "ok")
    told = (Todo(7, "Told"),)
    writer.event(TodosChanged, todos=told, by="outside")
    run = writer.finish()
    assert run.todos == told and sum(isinstance(event, TodosChanged) for event in run.events) == 1
