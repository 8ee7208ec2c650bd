"""The person's hand on a todo list: ``%agent todos``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from agentnb.core.todos import counted, listed
from agentnb.errors import SettingsError, near
from agentnb.notebook.wording import clean
from agentnb.tools.todos.board import Board, TodoBoard

CHANGES: dict[str, Callable[[TodoBoard, int, str], Any]] = {
    "start": lambda board, todo_id, rest: board.start(todo_id),
    "done": lambda board, todo_id, rest: board.complete(todo_id),
    "open": lambda board, todo_id, rest: board.reopen(todo_id),
    "block": lambda board, todo_id, rest: board.block(todo_id, rest),
    "remove": lambda board, todo_id, rest: board.remove(todo_id),
}


def change_todos(board: Board, words: str) -> None:
    """Do what the words say; `SettingsError` if they say nothing that can be done."""
    if not isinstance(board, TodoBoard):
        raise SettingsError("This list is on a board of its own", "Change it there")
    verb, _, rest = words.strip().partition(" ")
    rest = rest.strip()
    if verb == "add":
        if not rest:
            raise SettingsError("What is to be done?", "Write: %agent todos add TITLE")
        board.add(rest)
        return
    if verb not in CHANGES:
        raise SettingsError(f"%agent todos cannot {verb}", near(verb, ["add", *CHANGES]))
    number, _, why = rest.partition(" ")
    if not number.isdecimal():
        raise SettingsError(f"{number!r} is no number of a todo", f"Write: %agent todos {verb} ID")
    if why.strip() and verb != "block":
        raise SettingsError(
            f"%agent todos {verb} takes one todo, not also {why.strip()!r}", f"Write: %agent todos {verb} {number}"
        )
    if verb == "block" and not why.strip():
        raise SettingsError("Why is it blocked?", f"Write: %agent todos block {number} REASON")
    CHANGES[verb](board, int(number), why.strip())


def todo_text(board: Board) -> str:
    """The list, a line a todo."""
    found = tuple(board.read())
    return clean(f"{counted(found)}\n{listed(found)}") if found else "The todo list is empty"
