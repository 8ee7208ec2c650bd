"""The todo lists of foreign traces: what a call of a product's todo tool makes of the list."""

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
_STATUSES: dict[str, TodoStatus] = {one: one for one in get_args(TodoStatus)} | {
    "pending": "not-started",
    "todo": "not-started",
    "done": "completed",
}
"""Our status by the words of other products."""
_DROPPED = frozenset({"cancelled", "canceled", "deleted"})
"""Statuses of todos that are no longer on a list."""


class FollowedTodos:
    """The todo list of a run as its calls have changed it so far."""

    def __init__(self, todos: Iterable[Todo] = ()) -> None:
        self.todos: Todos = tuple(todos)
        self.is_told = False
        """True if the trace says itself how the list changed: then its calls are not followed."""

    def after(self, call: ToolCall, result: ToolResult, at: datetime | None) -> Todos | None:
        """Return the list as this call has left it; None if it has not changed it."""
        read = _READERS.get(call.name)
        if read is None or self.is_told or result.is_error or not isinstance(call.arguments, dict):
            return None
        changed = None
        with suppress(Refused, AttributeError, KeyError, TypeError, ValueError):
            changed = read(call.arguments, self.todos, at)
        if changed is None or changed == self.todos:
            return None
        self.todos = changed
        return changed


def _list_of(key: str, *titles: str) -> _Reader:
    """Return what reads a tool whose every call writes the whole list. Its todos have no ids: a title keeps its id."""

    def read(arguments: dict[str, Any], before: Todos, at: datetime | None) -> Todos:
        earlier = {todo.title: todo for todo in before}
        used: set[int] = set()
        free = operations.next_id(before)
        todos = []
        for one in arguments[key]:
            status = _status(one)
            if status is None:
                continue
            title = next((str(one[name]) for name in titles if one.get(name)), "")
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
    """Return the status; None for a todo that was dropped."""
    told = normal_status(str(one.get("status") or ""))
    return None if told in _DROPPED else _STATUSES.get(told, "not-started")


def _operation(arguments: dict[str, Any], before: Todos, at: datetime | None) -> Todos | None:
    """Read a call of ``todo_operations``, of agentnb and of SAM, whose rules may have allowed what ours refuse."""
    now = cast(datetime, at)  # it only becomes a field, which may be None
    what = str(arguments.get("operation") or "").strip().lower()
    if what == "write":
        fields = [read_item(one)[0] for one in arguments["todoList"]]
        return tuple([_todo(one, index, at) for index, one in enumerate(fields, 1)])
    if what == "update":
        return operations.update(before, arguments["todoUpdates"], now)[0]
    if what == "add":
        added = [read_item(one)[0] for one in arguments["newTodos"]]
        start = operations.next_id(before)
        return (*before, *[_todo(one | {"id": index}, index, at) for index, one in enumerate(added, start)])
    return None


def _todo(fields: Fields, number: int, at: datetime | None) -> Todo:
    given: Fields = {"id": number, "title": "", "created_at": at}
    return Todo(**given | fields)


_READERS: dict[str, _Reader] = {
    "TodoWrite": _list_of("todos", "content", "title"),
    "write_todos": _list_of("todos", "content", "description", "title"),
    "update_plan": _list_of("plan", "step", "content"),
    TODO_TOOL: _operation,
}
"""What reads a call, by the name of its tool."""
