"""Bounds on the events of a log: what is written can be read, however much a tool returned."""

from __future__ import annotations

import errno
from contextlib import suppress
from typing import Any

import msgspec

from agentnb.core.log.events import AnyEvent, RoundFinished, RunEnd, RunRecovered
from agentnb.core.log.wire import decode, encode
from agentnb.errors import TraceError

MAX_EVENT_BYTES = 10_000_000
MIN_EVENT_BYTES = 2_000
MAX_LOG_BYTES = 190_000_000
"""Bytes of a log after which only ends are written: fewer than are read at once."""
SHARE = 10
"""An event takes at most one part in this many of what is left for its log."""
MIN_TEXT = 50
CUT = "[{:,} {} were left out here: the log of the run has no room for them]"
IMAGE = "[an image was left out here: the log of the run has no room for its {:,} characters]"
_ENDS = RoundFinished | RunEnd | RunRecovered


class EventTooLarge(Exception):
    """An event is larger than its log takes: ``most`` bytes."""

    def __init__(self, most: int) -> None:
        super().__init__(most)
        self.most = most


def check_event(event: AnyEvent, length: int, size: int) -> None:
    """Raise `EventTooLarge` if an event is too large for a log of ``size`` bytes, and OSError if that takes no more."""
    if length <= MIN_EVENT_BYTES and size <= MAX_LOG_BYTES:
        return  # nearly all
    most = MAX_EVENT_BYTES if isinstance(event, _ENDS) else max_event_bytes(size)
    if length > most:
        raise EventTooLarge(most)
    if size > MAX_LOG_BYTES and not isinstance(event, _ENDS):
        raise OSError(errno.EFBIG, f"it has {size / 1e6:,.0f} MB, and no more is read")


def max_event_bytes(size: int) -> int:
    """Return the most bytes of the next event of a log of ``size`` bytes."""
    return max(MIN_EVENT_BYTES, min(MAX_EVENT_BYTES, (MAX_LOG_BYTES - size) // SHARE))


def cut_event(event: AnyEvent, most: int) -> AnyEvent:
    """Return the event in at most so many bytes, with a mark where long texts, images and lists are cut.

    Raises OSError if it cannot be: a list of events such as that of todos has no place for a mark.
    """
    plain, longest = msgspec.json.decode(encode(event)), most // 4
    while longest >= MIN_TEXT:
        line = msgspec.json.encode(_cut(plain, longest))
        if len(line) < most:
            with suppress(TraceError):
                return decode(line)
        longest //= 4
    raise OSError(errno.EFBIG, "an event is too large, and has no text that can be cut")


def _cut(value: Any, longest: int) -> Any:
    if isinstance(value, str) and len(value) > longest:
        half = longest // 2
        mark = CUT.format(len(value) - 2 * half, "characters")
        return f"{value[:half]}\n\n{mark}\n\n{value[-half:]}"
    if isinstance(value, list):
        kept = [_cut(item, longest) for item in value[:longest]]
        if len(value) > longest:
            mark = CUT.format(len(value) - longest, "items")
            kept.append({"type": "text", "text": mark} if isinstance(kept[0], dict) and "type" in kept[0] else mark)
        return kept
    if not isinstance(value, dict):
        return value
    if value.get("type") == "image" and len(data := str(value.get("data"))) > longest:
        return {"type": "text", "text": IMAGE.format(len(data))}
    return {name: _cut(item, longest) for name, item in value.items()}
