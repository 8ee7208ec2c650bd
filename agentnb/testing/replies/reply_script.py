"""The lines of a server's script, one for each request."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from typing import Any, TypeAlias

from agentnb.testing.replies.lines import Answer, as_answer
from agentnb.testing.replies.misbehaviour import Misbehaviour

Line: TypeAlias = Any
"""A text, `Thinking`, a `ToolCall`, a list of them, an `Answer`, a `Misbehaviour`, or a function of the body of the request
(a dict) that returns one of these.
"""


class ScriptOver(Exception):
    """The script has no line left for this request."""


class Script:
    """The lines in order, repeated if ``repeat`` is set, or one function that answers every request. Thread-safe."""

    def __init__(self, lines: Iterable[Line] | Callable[[dict[str, Any]], Line], repeat: bool) -> None:
        self._function = lines if callable(lines) else None
        self._lines = [] if callable(lines) else list(lines)
        self._repeat = repeat
        self._next = 0
        self._lock = threading.Lock()
        for line in self._lines:
            if not callable(line):
                _usable(line)

    def line(self, body: dict[str, Any]) -> Answer | Misbehaviour:
        """Return the next line, as an answer or a fault; raises `ScriptOver` after the last line."""
        line = self._function or self._take()
        while callable(line):
            line = line(body)
        return _usable(line)

    def _take(self) -> Line:
        with self._lock:
            if self._next == len(self._lines) and self._repeat:
                self._next = 0
            if self._next >= len(self._lines):
                raise ScriptOver(f"This server's script ended after {len(self._lines)} lines.")
            self._next += 1
            return self._lines[self._next - 1]


def script_error(error: Exception) -> str:
    """Return the error message for a client whose request the script cannot answer."""
    if isinstance(error, ScriptOver):
        return str(error)
    return f"A line of this server's script failed: {type(error).__name__}: {error}"


def _usable(line: Line) -> Answer | Misbehaviour:
    if not isinstance(line, Misbehaviour):
        return as_answer(line)
    if (inner := getattr(line, "line", None)) is not None:
        as_answer(inner)
    return line
