"""The size of a run under construction, checked against the reading limits."""

from __future__ import annotations

from collections.abc import Iterable

from agentnb.core.messages import AnyPart, Image, Role, Text, Thinking
from agentnb.store.bounds import MAX_HELD_BYTES, check_bytes, check_events, check_messages_in_a_row, check_round_calls

_EVENTS_OF_A_REPLY = 3
_EVENTS_OF_A_CALL = 2
_SIZED = (Text, Thinking, Image)


class RunSize:
    """Counts a run's events, texts and messages, and raises `BoundExceeded` as soon as there are too many."""

    def __init__(self, source: str) -> None:
        """``source``: position of the trace, for use in errors."""
        self._source = source
        self._events = self._characters = 0
        self._last_role: Role = "tool"
        self._messages_in_a_row = 0
        """Consecutive messages of the same role; a call resets the count."""

    def add_user_message(self, parts: Iterable[AnyPart]) -> None:
        """Count a user message."""
        self.add_events(1)
        self.add_texts(parts)
        self._add_message("user")

    def add_reply(self, parts: Iterable[AnyPart]) -> None:
        """Count a reply, excluding its calls."""
        self.add_events(_EVENTS_OF_A_REPLY)
        self.add_texts(parts)
        self._add_message("assistant")

    def add_call(self, calls: int) -> None:
        """Count a call; it ends a streak of replies. ``calls``: number of calls in its reply, including this one."""
        check_round_calls(calls, self._source)
        self.add_events(_EVENTS_OF_A_CALL)
        self._add_message("tool")

    def add_events(self, count: int) -> None:
        """Count events."""
        self._events += count
        check_events(self._events, self._source)

    def add_texts(self, parts: Iterable[AnyPart]) -> None:
        """Count the texts and images in a message or result."""
        sizes = [len(part.data) if isinstance(part, Image) else len(part.text) for part in parts if isinstance(part, _SIZED)]
        self._characters += sum(sizes)
        check_bytes(self._characters, MAX_HELD_BYTES, self._source)

    def _add_message(self, role: Role) -> None:
        self._messages_in_a_row = 1 if role != self._last_role or role == "tool" else self._messages_in_a_row + 1
        self._last_role = role
        check_messages_in_a_row(self._messages_in_a_row, self._source)
