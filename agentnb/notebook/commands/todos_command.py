"""``%agent todos``: shows and changes a todo list."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from agentnb.core.redaction import redact
from agentnb.core.todos import format_count, format_list
from agentnb.display.texts.labels import clean
from agentnb.errors import SettingsError, suggest_names
from agentnb.tools.todos.board import Board, TodoBoard, as_todo_board

CHANGES: dict[str, Callable[[TodoBoard, int, str], Any]] = {
    "start": lambda board, todo_id, rest: board.start(todo_id),
    "done": lambda board, todo_id, rest: board.complete(todo_id),
    "open": lambda board, todo_id, rest: board.reopen(todo_id),
    "block": lambda board, todo_id, rest: board.block(todo_id, rest),
    "remove": lambda board, todo_id, rest: board.remove(todo_id),
}


def change_todos(board: Board, words: str) -> None:
    """Make the change that the words describe. Raises `SettingsError` if it is invalid."""
    board = as_todo_board(board)
    verb, _, details = words.strip().partition(" ")
    details = details.strip()
    if verb == "add":
        if not details:
            raise SettingsError("The todo has no title", "Write: %agent todos add TITLE")
        board.add(details[1:-1].strip() if len(details) > 2 and details[0] == details[-1] and details[0] in "\"'" else details)
        return
    if verb == "move":
        _move(board, details)
        return
    if verb not in CHANGES:
        raise SettingsError(f"%agent todos has no command {verb!r}", suggest_names(verb, ["add", "move", *CHANGES]))
    number, _, why = details.partition(" ")
    if not number.isdecimal():
        raise SettingsError(f"{number!r} is not a todo number", f"Write: %agent todos {verb} ID")
    if why.strip() and verb != "block":
        raise SettingsError(
            f"%agent todos {verb} takes one todo, but also got {why.strip()!r}", f"Write: %agent todos {verb} {number}"
        )
    if verb == "block" and not why.strip():
        raise SettingsError("A blocked todo needs a reason", f"Write: %agent todos block {number} REASON")
    CHANGES[verb](board, int(number), why.strip())


def _move(board: TodoBoard, details: str) -> None:
    match details.split():
        case [number] if number.isdecimal():
            board.move(int(number))
        case [number, "before", other] if number.isdecimal() and other.isdecimal():
            board.move(int(number), before=int(other))
        case _:
            raise SettingsError(
                f"{details!r} does not name a todo and its new position" if details else "Which todo should be moved?",
                "Write: %agent todos move ID before ID, or to the end: %agent todos move ID",
            )


def todo_text(board: Board) -> str:
    """Return the list as text, one line per todo."""
    todos = redact(tuple(board.read()))
    return clean(f"{format_count(todos)}\n{format_list(todos)}") if todos else "The todo list is empty"
