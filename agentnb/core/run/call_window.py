"""A window over a run's latest tool calls: detects repeated calls without searching the history."""

from __future__ import annotations

import re
from collections import deque
from functools import partial
from typing import Any

import msgspec

from agentnb.core.messages import ToolCall, ToolResult

LONGEST = 64
"""Number of executed calls in the window."""

_encode = msgspec.json.Encoder(order="sorted").encode
_whole_float = re.compile(rb"\d\.0[,}\]]")


def call_key(call: ToolCall) -> tuple[str, bytes]:
    """Return the identity of a call: the tool's name, and its arguments as JSON with sorted keys.

    Missing arguments and ``null`` equal ``{}``, and 1.0 equals 1.
    """
    arguments = call.arguments or {}
    encoded = _encode(arguments)
    if encoded.find(b".0") >= 0 and _whole_float.search(encoded):  # a third of the time of `in`
        encoded = _encode(_as_json_numbers(arguments))
    return call.name, encoded


def _as_json_numbers(value: Any) -> Any:
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, dict):
        return {name: _as_json_numbers(item) for name, item in value.items()}
    return [_as_json_numbers(item) for item in value] if isinstance(value, list | tuple) else value


class Executed(msgspec.Struct, frozen=True, gc=False):
    """A tool call that was executed."""

    key: tuple[str, bytes]
    call_id: str


class CallWindow(msgspec.Struct, gc=False, eq=False):
    """The latest executed calls, and the number of times in a row that the model made the newest one.

    Blocked calls count only towards that number; a message from the person empties the window.
    """

    executed: deque[Executed] = msgspec.field(default_factory=partial(deque, maxlen=LONGEST))
    counts: dict[tuple[str, bytes], int] = {}
    """Occurrences of each call in `executed`."""
    row_key: tuple[str, bytes] | None = None
    row: int = 0
    """Number of identical calls in a row so far, including blocked ones."""
    row_executed: int = 0
    """Number of those calls that were executed."""
    results: dict[str, ToolResult] = {}
    """Results of the calls in `executed`, by id."""
    outputs: dict[tuple[str, bytes], ToolResult] = {}
    """The most recent result of each call; a failure does not replace a success."""
    _known: tuple[ToolCall | None, tuple[str, bytes]] = (None, ("", b""))

    def key_of(self, call: ToolCall) -> tuple[str, bytes]:
        """Return the `call_key`, cached for the newest call because both guards and the fold need it."""
        if self._known[0] is not call:
            self._known = (call, call_key(call))
        return self._known[1]

    def record_start(self, call: ToolCall) -> None:
        """Record a call that was admitted."""
        cached, executed, counts = self._known, self.executed, self.counts
        key = cached[1] if cached[0] is call else self.key_of(call)  # usually just computed for a guard
        self._ask(key)
        if len(executed) == LONGEST:
            self._forget(executed[0])
        counts[key] = counts.get(key, 0) + 1
        executed.append(Executed(key, call.id))
        self.row_executed += 1

    def note_block(self, call: ToolCall) -> None:
        """Record a call that was not admitted."""
        self._ask(self.key_of(call))

    def record_result(self, result: ToolResult) -> None:
        """Record the result of an executed call."""
        call_id = result.call_id
        for entry in reversed(self.executed):
            if entry.call_id == call_id:
                if not result.is_error or entry.key not in self.outputs or self.outputs[entry.key].is_error:
                    self.outputs[entry.key] = result
                self.results[call_id] = result
                return

    def clear(self) -> None:
        """Empty the window after a message from the person: earlier calls no longer count. Keeps the outputs."""
        self.executed.clear()
        self.counts.clear()
        self.results.clear()
        self.row_key, self.row, self.row_executed = None, 0, 0

    def _forget(self, oldest: Executed) -> None:
        self.results.pop(oldest.call_id, None)
        count = self.counts.pop(oldest.key) - 1
        if count:
            self.counts[oldest.key] = count

    def _ask(self, key: tuple[str, bytes]) -> None:
        if key != self.row_key:
            self.row_key, self.row, self.row_executed = key, 0, 0
        self.row += 1

    def __eq__(self, other: object) -> bool:
        return isinstance(other, CallWindow) and self._facts() == other._facts()

    def _facts(self) -> tuple[object, ...]:
        return self.executed, self.row_key, self.row, self.row_executed, self.results, self.outputs

    __hash__ = None  # type: ignore[assignment]  # mutable
