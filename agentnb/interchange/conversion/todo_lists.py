"""Todo lists in foreign traces, reconstructed from calls to each product's todo tool."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress
from datetime import datetime
from typing import Any, TypeAlias, cast, get_args

from msgspec.structs import replace

from agentnb.core.messages import ToolCall, ToolResult
from agentnb.core.todos import TODO_TOOL, Todo, Todos, TodoStatus, normal_status
from agentnb.tools.todos import operations
from agentnb.tools.todos.items import Fields, read_item
from agentnb.tools.todos.operations import Refused

_Reader: TypeAlias = Callable[[dict[str, Any], Todos, "datetime | None"], "Todos | None"]
_STATUSES: dict[str, TodoStatus] = {status: status for status in get_args(TodoStatus)} | {
    "pending": "not-started",
    "todo": "not-started",
    "done": "completed",
}
"""agentnb's status for each word that other products use."""
_DROPPED = frozenset({"cancelled", "canceled", "deleted"})
"""Statuses of todos that have been removed from the list."""


class TodoTracker:
    """Tracks a run's todo list after the calls so far."""

    def __init__(self, todos: Iterable[Todo] = ()) -> None:
        self.todos: Todos = tuple(todos)
        self.is_recorded = False
        """True if the trace itself records changes to the list, so that calls are ignored."""

    def after(self, call: ToolCall, result: ToolResult, at: datetime | None) -> Todos | None:
        """Return the list after this call, or None if the call did not change it."""
        read = _READERS.get(call.name)
        if read is None or self.is_recorded or result.is_error or not isinstance(call.arguments, dict):
            return None
        changed = None
        with suppress(Refused, AttributeError, KeyError, TypeError, ValueError):
            changed = read(call.arguments, self.todos, at)
        if changed is None or changed == self.todos:
            return None
        self.todos = changed
        return changed


def _list_of(key: str, *titles: str) -> _Reader:
    """Return a reader for a tool that writes the complete list in every call. Todos without ids are matched by title."""

    def read(arguments: dict[str, Any], before: Todos, at: datetime | None) -> Todos:
        earlier = {todo.title: todo for todo in before}
        used: set[int] = set()
        free = operations.next_id(before)
        todos = []
        for item in arguments[key]:
            status = _status(item)
            if status is None:
                continue
            title = next((str(item[name]) for name in titles if item.get(name)), "")
            same = earlier.get(title)
            if same is None or same.id in used:
                todos.append(Todo(free, title, status, created_at=at))
                free += 1
            else:
                used.add(same.id)
                todos.append(replace(same, status=status))
        return tuple(todos)

    return read


def _status(one: dict[str, Any]) -> TodoStatus | None:
    """Return the status, or None for a todo that has been dropped."""
    status = normal_status(str(one.get("status") or ""))
    return None if status in _DROPPED else _STATUSES.get(status, "not-started")


def _operation(arguments: dict[str, Any], before: Todos, at: datetime | None) -> Todos | None:
    """Read a call to ``todo_operations`` from agentnb or SAM. SAM may have accepted what agentnb would refuse."""
    time = cast(datetime, at)  # only stored in a field, which may be None
    operation = str(arguments.get("operation") or "").strip().lower()
    if operation == "write":
        fields = [read_item(item)[0] for item in arguments["todoList"]]
        return tuple([_todo(item, index, at) for index, item in enumerate(fields, 1)])
    if operation == "update":
        return operations.update(before, arguments["todoUpdates"], time)[0]
    if operation == "add":
        added = [read_item(item)[0] for item in arguments["newTodos"]]
        start = operations.next_id(before)
        return (*before, *[_todo(item | {"id": index}, index, at) for index, item in enumerate(added, start)])
    return None


def _todo(fields: Fields, number: int, at: datetime | None) -> Todo:
    defaults: Fields = {"id": number, "title": "", "created_at": at}
    return Todo(**defaults | fields)


_READERS: dict[str, _Reader] = {
    "TodoWrite": _list_of("todos", "content", "title"),
    "write_todos": _list_of("todos", "content", "description", "title"),
    "update_plan": _list_of("plan", "step", "content"),
    TODO_TOOL: _operation,
}
"""The reader for each todo tool, by name."""
