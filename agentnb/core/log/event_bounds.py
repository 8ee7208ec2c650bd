"""Size limits for log events: every event that is written can be read back, no matter how much a tool returned."""

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
"""Log size above which only end events are written; less than the size limit for reading."""
SHARE = 10
"""An event may take at most 1/SHARE of the log's remaining bytes."""
MIN_TEXT = 50
CUT = "[{:,} {} were omitted here: the run log has no room for them]"
IMAGE = "[an image was omitted here: the run log has no room for its {:,} characters]"
_ENDS = RoundFinished | RunEnd | RunRecovered


class EventTooLarge(Exception):
    """An event exceeds its log's limit of ``most`` bytes."""

    def __init__(self, most: int) -> None:
        super().__init__(most)
        self.most = most


def check_event(event: AnyEvent, length: int, size: int) -> None:
    """Raise `EventTooLarge` if the event is too large for a log of ``size`` bytes, or OSError if the log is full."""
    if length <= MIN_EVENT_BYTES and size <= MAX_LOG_BYTES:
        return  # the usual case
    most = MAX_EVENT_BYTES if isinstance(event, _ENDS) else max_event_bytes(size)
    if length > most:
        raise EventTooLarge(most)
    if size > MAX_LOG_BYTES and not isinstance(event, _ENDS):
        raise OSError(errno.EFBIG, f"it has {size / 1e6:,.0f} MB, the maximum size that can be read")


def max_event_bytes(size: int) -> int:
    """Return the maximum size in bytes of the next event in a log of ``size`` bytes."""
    return max(MIN_EVENT_BYTES, min(MAX_EVENT_BYTES, (MAX_LOG_BYTES - size) // SHARE))


def cut_event(event: AnyEvent, most: int) -> AnyEvent:
    """Shorten the event to at most ``most`` bytes, marking text, images and lists that were cut.

    Raises OSError if that is impossible, for example for a long list of todos, which cannot be marked as cut.
    """
    plain, longest = msgspec.json.decode(encode(event)), most // 4
    while longest >= MIN_TEXT:
        line = msgspec.json.encode(_cut(plain, longest))
        if len(line) < most:
            with suppress(TraceError):
                return decode(line)
        longest //= 4
    raise OSError(errno.EFBIG, "an event is too large and contains no text to cut")


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
