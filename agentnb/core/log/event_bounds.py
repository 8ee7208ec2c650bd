"""Bounds on the events of a log: what is written can be read, however much a tool returned."""

from __future__ import annotations

import errno
from typing import Any

import msgspec

from agentnb.core.log.events import AnyEvent, RoundFinished, RunFinished, RunRecovered, RunSuspended
from agentnb.core.log.wire import decode, encode

MAX_EVENT_BYTES = 10_000_000
MIN_EVENT_BYTES = 2_000
MAX_LOG_BYTES = 190_000_000
"""Bytes of a log after which only ends are written: fewer than are read at once."""
SHARE = 10
"""An event takes at most one part in this many of what is left for its log."""
MIN_TEXT = 50
CUT = "\n\n[{:,} characters were left out here: the log of the run has no room for them]\n\n"
IMAGE = "[an image was left out here: the log of the run has no room for its {:,} characters]"
_ENDS = (RoundFinished, RunFinished, RunRecovered, RunSuspended)


class EventTooLarge(Exception):
    """An event is larger than its log takes: ``most`` bytes."""

    def __init__(self, most: int) -> None:
        super().__init__(most)
        self.most = most


def check_event(event: AnyEvent, length: int, size: int) -> None:
    """Raise `EventTooLarge` if an event is too large for a log of ``size`` bytes, and OSError if that takes no more."""
    most = MAX_EVENT_BYTES if isinstance(event, _ENDS) else max_event_bytes(size)
    if length > most:
        raise EventTooLarge(most)
    if size > MAX_LOG_BYTES and not isinstance(event, _ENDS):
        raise OSError(errno.EFBIG, f"it has {size / 1e6:,.0f} MB, and no more is read")


def max_event_bytes(size: int) -> int:
    """Return the most bytes of the next event of a log of ``size`` bytes."""
    return max(MIN_EVENT_BYTES, min(MAX_EVENT_BYTES, (MAX_LOG_BYTES - size) // SHARE))


def cut_event(event: AnyEvent, most: int) -> AnyEvent:
    """Return the event in at most so many bytes: long texts and images leave a mark where they are cut, lists none.

    Raises OSError if it cannot be.
    """
    plain, longest = msgspec.json.decode(encode(event)), most // 4
    while longest >= MIN_TEXT:
        line = msgspec.json.encode(_cut(plain, longest))
        if len(line) < most:
            return decode(line)
        longest //= 4
    raise OSError(errno.EFBIG, "an event is too large, and has no text that can be cut")


def _cut(value: Any, longest: int) -> Any:
    if isinstance(value, str) and len(value) > longest:
        half = longest // 2
        return f"{value[:half]}{CUT.format(len(value) - 2 * half)}{value[-half:]}"
    if isinstance(value, list):
        return [_cut(item, longest) for item in value[:longest]]
    if not isinstance(value, dict):
        return value
    if value.get("type") == "image" and len(data := str(value.get("data"))) > longest:
        return {"type": "text", "text": IMAGE.format(len(data))}
    return {name: _cut(item, longest) for name, item in value.items()}
