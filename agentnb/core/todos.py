"""Todos: the tasks that an agent sets itself, and queries over a list of them.

A list is a tuple in written order. Its JSON uses the tool's names, in camel case.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from typing import Literal, TypeAlias

import msgspec

from agentnb.core.schema.counts import Number

TodoStatus: TypeAlias = Literal["not-started", "in-progress", "completed", "blocked"]
Priority: TypeAlias = Literal["low", "medium", "high", "critical"]

TODO_TOOL = "todo_operations"
"""The tool with which the model manages its list."""


class Todo(msgspec.Struct, frozen=True, omit_defaults=True, repr_omit_defaults=True, rename="camel"):
    """A todo of an agent's list."""

    id: Number
    title: str
    """The task, in three to seven words."""
    status: TodoStatus = "not-started"
    description: str = ""
    priority: Priority | None = None
    dependencies: tuple[int, ...] = ()
    """Ids of todos that must be completed first."""
    can_run_parallel: bool | None = None
    parallel_group: str | None = None
    progress: float | None = None
    """Progress, from 0 to 1."""
    blocked_reason: str | None = None
    created_at: datetime | None = None
    """Time of creation, in UTC, like `updated_at`."""
    updated_at: datetime | None = None

    @property
    def identity(self) -> tuple[int, str]:
        """The identity of the todo across changes; the id alone may have been reused."""
        return self.id, self.title


Todos: TypeAlias = tuple[Todo, ...]


def normal_status(status: str) -> str:
    """Normalize the spelling of a status: ``In_Progress`` becomes ``in-progress``."""
    return status.strip().lower().replace("_", "-").replace(" ", "-")


def is_open(todo: Todo) -> bool:
    """True if the todo is not completed, in any spelling of its status."""
    return todo.status != "completed" and normal_status(todo.status) != "completed"


def open_todos(todos: Iterable[Todo]) -> Todos:
    """Return the todos that are not completed, including blocked ones."""
    return tuple([todo for todo in todos if is_open(todo)])


def has_open(todos: Sequence[Todo]) -> bool:
    """True if any todo is not completed."""
    return bool(todos) and any(map(is_open, todos))


def has_one_in_progress(todos: Sequence[Todo]) -> bool:
    """True if any todo is in progress."""
    return any(todo.status == "in-progress" for todo in todos)


def all_open_are_blocked(todos: Sequence[Todo]) -> bool:
    """True if there are open todos and all are blocked: they wait for something the agent cannot do."""
    remaining = open_todos(todos)
    return bool(remaining) and all(todo.status == "blocked" for todo in remaining)


def next_todo(todos: Sequence[Todo]) -> Todo | None:
    """Return the first todo in progress or, if there is none, the first not started; None if there is neither."""
    for status in ("in-progress", "not-started"):
        for todo in todos:
            if todo.status == status:
                return todo
    return None


def newly_completed(before: Sequence[Todo], after: Sequence[Todo]) -> Todos:
    """Return the todos that are completed now but were open or missing before."""
    return _newly(lambda todo: not is_open(todo), before, after)


def newly_blocked(before: Sequence[Todo], after: Sequence[Todo]) -> Todos:
    """Return the todos that are blocked now, but were missing or not blocked before."""
    return _newly(lambda todo: todo.status == "blocked", before, after)


def _newly(is_so: Callable[[Todo], bool], before: Sequence[Todo], after: Sequence[Todo]) -> Todos:
    were = {todo.id for todo in before if is_so(todo)}
    return tuple([todo for todo in after if is_so(todo) and todo.id not in were])


def format_count(todos: Sequence[Todo]) -> str:
    """Return the count of completed todos, such as ``1 of 3 completed``."""
    return f"{len(todos) - len(open_todos(todos))} of {len(todos)} completed"


def format_list(todos: Sequence[Todo], most: int | None = None) -> str:
    """Return a line per todo, such as ``2. [in-progress] Describe the table``; at most ``most`` of them, if set."""
    more = len(todos) - most if most is not None else 0
    lines = [_line(todo) for todo in todos[:most]]
    return "\n".join([*lines, f"and {more} more"] if more > 0 else lines)


def format_with_heading(todos: Sequence[Todo]) -> str:
    """Return the list with its heading, in the same form for all models; empty if there are no todos."""
    return f"Todos ({format_count(todos)}):\n{format_list(todos)}" if todos else ""


def format_or_none(todos: Sequence[Todo]) -> str:
    """Return the list with its heading, or a sentence for an empty list."""
    return format_with_heading(todos) or "There are no todos."


def on_one_line(text: str) -> str:
    """Return the text without line breaks or control characters, which would affect how it is displayed."""
    line = " ".join(text.split())
    return line if line.isprintable() else "".join(filter(str.isprintable, line))


def _line(todo: Todo) -> str:
    line = f"{todo.id}. [{todo.status}] {on_one_line(todo.title)}"
    if todo.description:
        line += f": {on_one_line(todo.description)}"
    reason = on_one_line(todo.blocked_reason or "")
    return f"{line} (blocked: {reason})" if todo.status == "blocked" and reason else line
