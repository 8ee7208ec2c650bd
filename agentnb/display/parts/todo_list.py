"""The todo list of a card."""

from __future__ import annotations

from agentnb.core.todos import Todo
from agentnb.display.markup import NOTHING, Html, join_html, tag
from agentnb.display.texts.labels import first_line
from agentnb.display.texts.todo_labels import TODO_MARKS, shown_todos, todos_done

SAID = {"not-started": "open: ", "completed": "done: "}
"""Text of the marks for screen readers. Other states have visible text next to the todo."""
MOVES = (("↑", "up", "Move up"), ("↓", "down", "Move down"), ("✕", "remove", "Remove"))
"""Other actions on a todo: sign, message name and label."""


def todos_html(todos: tuple[Todo, ...], *, live: bool) -> Html:
    """Return the list with a title; in a live card, todos can be ticked, moved and removed."""
    title = tag("div", "title", f"Todos {todos_done(todos)}")
    return join_html(title, todo_list_html(todos, live=live)) if todos else NOTHING


def todo_list_html(todos: tuple[Todo, ...], *, live: bool) -> Html:
    """Return the list without a title."""
    before, shown, after = shown_todos(todos)
    return tag("ul", "todos", _rest(before), *[_todo(todo, live=live) for todo in shown], _rest(after))


def _rest(text: str) -> Html:
    return tag("li", "todo todo-rest", text) if text else NOTHING


def _todo(todo: Todo, *, live: bool) -> Html:
    status = todo.status if todo.status in TODO_MARKS else "not-started"
    why = f": {first_line(todo.blocked_reason, 100)}" if status == "blocked" and todo.blocked_reason else ""
    state_text = "" if status in ("not-started", "completed") else f" ({status.replace('-', ' ')}{why})"
    state = tag("span", "unseen" if status == "in-progress" else "todo-state", state_text)  # shown by its mark and weight
    text = tag("span", "todo-text", first_line(todo.title, 200), state)
    mark = TODO_MARKS[status]
    if not live:
        reported = tag("span", "unseen", SAID[status]) if status in SAID else NOTHING
        return tag("li", f"todo todo-{status}", tag("span", "todo-mark", f"{mark} ", aria_hidden="true"), reported, text)
    moves = tag("span", "moves", *[_move(todo, *move) for move in MOVES])
    return tag("li", f"todo todo-{status}", _tick(todo, mark), text, moves, draggable="true", data_todo=str(todo.id))


def _tick(todo: Todo, mark: str) -> Html:
    """Return the mark as a checkbox."""
    is_done = todo.status == "completed"
    label = f"Todo {todo.id}, {first_line(todo.title, 60)}: {'reopen it' if is_done else 'mark it as done'}"
    checked = "true" if is_done else "false"
    labels = {"aria_checked": checked, "aria_label": label, "title": "Reopen" if is_done else "Done"}
    return tag("button", "tick", mark, type="button", role="checkbox", **_does("tick", todo), **labels)


def _move(todo: Todo, sign: str, do: str, label: str) -> Html:
    return tag("button", "move", sign, type="button", **_does(do, todo), aria_label=f"{label} todo {todo.id}", title=label)


def _does(do: str, todo: Todo) -> dict[str, str]:
    return {"data_do": do, "data_id": str(todo.id), "data_key": f"{do}:{todo.id}"}
