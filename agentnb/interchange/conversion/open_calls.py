"""The open calls of a trace, looked up by id or tool in constant time."""

from __future__ import annotations

from collections import defaultdict, deque

from agentnb.interchange.conversion.trace_items import RecordedCall


class OpenCalls:
    """Calls in order. A call that has a result is dropped once it reaches the front."""

    def __init__(self) -> None:
        self._all: deque[RecordedCall] = deque()
        self._by_recorded_id: defaultdict[str, deque[RecordedCall]] = defaultdict(deque)
        self._by_tool: defaultdict[str, deque[RecordedCall]] = defaultdict(deque)

    def add(self, call: RecordedCall) -> None:
        """Add a call."""
        for calls in (self._all, self._by_recorded_id[call.recorded_id], self._by_tool[call.call.name]):
            calls.append(call)

    def first(self, recorded_id: str, tool: str) -> RecordedCall | None:
        """Return the oldest open call with this id; without an id, the oldest of this tool or, failing that, of any tool."""
        calls = self._by_recorded_id[recorded_id] if recorded_id else self._by_tool[tool] if tool else self._all
        while calls and calls[0].result is not None:
            calls.popleft()
        return calls[0] if calls else None
