"""Synchronizes the run's todo list with the board, which others may change too."""

from __future__ import annotations

from contextlib import suppress
from typing import Any, Literal

import msgspec

from agentnb.core.log.events import TodosChanged
from agentnb.core.messages import encodable
from agentnb.core.redaction import redact
from agentnb.core.todos import Todo, Todos, normal_status
from agentnb.runtime.event_log import EventLog
from agentnb.tools.todos.board import Board
from agentnb.tools.todos.todo_tool import TodoChange
from agentnb.tools.tool import ToolOutcome

_decode = msgspec.json.Decoder(Todos, strict=False).decode
_NOT_YET = object()


class TodoSync:
    """Reads the board and logs its changes. These reads are not tool calls."""

    __slots__ = ("_board", "_failed", "_log", "_seen")

    def __init__(self, board: Board | None, log: EventLog) -> None:
        self._board = board
        self._log = log
        self._seen: object = _NOT_YET
        self._failed = False

    def begin(self) -> Todos:
        """Return the initial list. If it cannot be read, return an empty one; the first `look` then reports the problem."""
        if self._board is None:
            return ()
        try:
            current = self._board.read()
            todos = settled_todos(current)
        except Exception:
            return ()
        self._seen = current
        return todos

    def look(self) -> None:
        """Read the board and log its changes. If it cannot be read, warn and keep the list last read."""
        if self._board is None:
            return
        try:
            current = self._board.read()
            todos = None if current is self._seen and type(current) is tuple else self._read_if_new(current)
        except Exception as error:
            self._warn(error)
            return
        self._failed = False
        if todos is not None:
            self._note(todos, "outside")

    def log_call(self, outcome: ToolOutcome, call_id: str) -> None:
        """Log the changes around a call of the todo tool: others' changes before it, the call's own, and any since."""
        change = outcome.value
        if isinstance(change, TodoChange):
            with suppress(TypeError, ValueError):  # the next `look` reports a malformed list
                self._note(self._read_if_new(change.before), "outside")
                self._note(self._read_if_new(change.after), "model", call_id)
        self.look()

    def log_plan(self, todos: Todos) -> None:
        """Log the todo list of an agent that maintains its own list."""
        self._note(redact(todos), "model")

    def _read_if_new(self, found: Any) -> Todos | None:
        """Return the list as logged, or None if it is the same object as last time (as in nearly every round)."""
        if found is self._seen and type(found) is tuple:  # a mutable list may have changed in place
            return None
        todos = settled_todos(found)
        self._seen = found
        return todos

    def _note(self, todos: Todos | None, by: Literal["model", "outside"], call_id: str = "") -> None:
        if todos is not None and todos != self._log.run.todos:
            self._log.emit(TodosChanged, todos=todos, by=by, call_id=call_id)

    def _warn(self, error: Exception) -> None:
        if not self._failed:  # once, not in every round
            self._failed = True
            words = encodable(f"{type(error).__name__}: {error}")
            message = f"The todo list could not be read ({words}). The run continues with the last known list"
            self._log.warn(message)


def settled_todos(found: Any) -> Todos:
    """Return a board's todos as logged, redacted. Raises TypeError or ValueError if they are malformed."""
    plain = []
    for todo in found:
        if not isinstance(todo, Todo):
            raise TypeError("it contains something that is not a Todo")
        fields = {name: encodable(value) if isinstance(value, str) else value for name, value in _fields(todo).items()}
        plain.append(fields | {"status": normal_status(str(todo.status))})
    if not plain:
        return ()
    return redact(_decode(msgspec.json.encode(plain)))  # else the board would never equal the list in the log


def _fields(todo: Todo) -> dict[str, Any]:
    names = zip(Todo.__struct_encode_fields__, Todo.__struct_fields__, strict=True)
    return {encoded: getattr(todo, name) for encoded, name in names}
