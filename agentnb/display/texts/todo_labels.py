"""Wording for todos: one line for each, and which part of a long list is visible."""

from __future__ import annotations

from typing import NamedTuple

from agentnb.core.todos import Todo, open_todos
from agentnb.detect.run import Run
from agentnb.display.defaults import MAX_TODOS
from agentnb.display.texts.labels import clean, first_line, pluralize

TODO_MARKS = {"not-started": "○", "in-progress": "◐", "completed": "✓", "blocked": "⊘"}


class ShownTodos(NamedTuple):
    """The visible todos of a list, and text with the number of todos before and after them, if any."""

    before: str
    todos: tuple[Todo, ...]
    after: str


def shown_todos(todos: tuple[Todo, ...]) -> ShownTodos:
    """Return the part of a long list around the first unfinished todo."""
    first = next((index for index, todo in enumerate(todos) if todo.status != "completed"), 0)
    start = max(0, min(first - MAX_TODOS // 2, len(todos) - MAX_TODOS))
    after = max(0, len(todos) - start - MAX_TODOS)
    return ShownTodos(
        f"{pluralize(start, 'todo')} before" if start else "",
        todos[start : start + MAX_TODOS],
        f"{pluralize(after, 'todo')} after" if after else "",
    )


def todo_lines(run: Run) -> list[str]:
    """Return the list, one line per todo."""
    before, shown, after = shown_todos(run.todos)
    return [line for line in (before, *map(todo_line, shown), after) if line]


def todo_line(todo: Todo) -> str:
    """Return a todo with its mark, such as ``◐ 2 Describe the table, in-progress``."""
    why = f" ({first_line(todo.blocked_reason, 100)})" if todo.status == "blocked" and todo.blocked_reason else ""
    return clean(f"{TODO_MARKS.get(todo.status, '○')} {todo.id} {first_line(todo.title, 100)}, {todo.status}{why}")


def todos_done(todos: tuple[Todo, ...]) -> str:
    """Return the number of completed todos, such as ``5 of 6`` or ``5 of 6, 1 blocked``."""
    blocked = sum(todo.status == "blocked" for todo in todos)
    done = f"{len(todos) - len(open_todos(todos))} of {len(todos)}"
    return f"{done}, {blocked} blocked" if blocked else done
