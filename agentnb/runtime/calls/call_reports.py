"""Reports of a running tool, from any thread: its progress, and its output up to a limit."""

from __future__ import annotations

import asyncio
import math
import threading
from dataclasses import dataclass, field
from typing import NamedTuple

from agentnb.core.log.events import NestedStart, Progress, ToolPrinted, ToolProgress
from agentnb.core.messages import as_shown, encodable
from agentnb.core.redaction import StreamRedactor, redact
from agentnb.errors import SettingsError
from agentnb.runtime.calls.throttle import Throttle
from agentnb.runtime.event_log import EventLog
from agentnb.settings import secrets

MAX_TEXT = 200
"""Maximum characters of a progress message."""


class CallProgress:
    """Progress of one call. Reports may come from any thread; they are ignored once the call has ended."""

    def __init__(self, log: EventLog, call_id: str, loop: asyncio.AbstractEventLoop) -> None:
        """``loop``: the run's event loop, on which watchers are notified."""
        self.last: Progress | None = None
        self._log = log
        self._call_id = call_id
        self._throttle = Throttle(self._tell, loop)

    def report(self, done: float, total: float | None, text: str) -> None:
        """Report progress. Raises `SettingsError` for numbers that are not finite."""
        progress = Progress(_number("done", done), None if total is None else _number("total", total), _text(text))
        if not self._throttle.is_over:
            self.last = progress
            self._throttle.due()

    def close(self) -> Progress | None:
        """Stop reporting and return the last progress."""
        self._throttle.close()
        return self.last

    def _tell(self) -> None:
        if self.last is not None:
            self._log.stream(ToolProgress(self._call_id, self.last))


def _number(name: str, value: float) -> float:
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        number = math.nan
    if not math.isfinite(number):
        raise SettingsError(f"progress: {name}={value!r} is not a number", "For example: context.progress(3, 10)")
    return number


def _text(text: str) -> str:
    return redact(encodable(str(text)))[:MAX_TEXT]  # in this order: a truncated key would not be recognized


MAX_KEPT = 20_000
"""Maximum characters kept from the end of a call's output."""
MAX_LIVE = 2_000
"""Maximum characters streamed from the end of the output while the tool runs."""
LEFT_OUT = "[{:,} earlier characters were not kept]\n"


class CallPrints:
    """The output that one call has printed so far."""

    def __init__(self, log: EventLog, call_id: str, loop: asyncio.AbstractEventLoop) -> None:
        """``loop``: the run's event loop, on which watchers are notified."""
        self._log = log
        self._call_id = call_id
        self._throttle = Throttle(self._tell, loop)
        self._lock = threading.RLock()  # a finalizer may print at the same time
        self._pieces: list[str] = []
        self._size = 0
        self._dropped = 0

    def write(self, text: str) -> None:
        """Append text to the output."""
        with self._lock:
            self._pieces.append(text)
            self._size += len(text)
            if self._size > 4 * MAX_KEPT:  # rarely, so that many short texts cost little
                self._shorten()
        self._throttle.due()

    def close(self) -> str:
        """Stop reporting and return the end of the output, with a note about omitted characters."""
        self._throttle.close()
        with self._lock:
            text, dropped = as_shown("".join(self._pieces)), self._dropped
        text = encodable(text)
        if dropped or len(text) > MAX_KEPT:
            text = redact(text)  # before truncation: a truncated key would not be recognized
            dropped += max(len(text) - MAX_KEPT, 0)
            text = LEFT_OUT.format(dropped) + text[-MAX_KEPT:]
        return text

    def _tell(self) -> None:
        with self._lock:
            text = encodable(as_shown("".join(self._pieces)))
        text = StreamRedactor().feed(text, secrets())  # without an end that may begin a key
        self._log.stream(ToolPrinted(self._call_id, text[-MAX_LIVE:]))

    def _shorten(self) -> None:
        text = as_shown("".join(self._pieces))
        if len(text) > 2 * MAX_KEPT:
            text = redact(text)  # first: a truncated key would not be recognized
            self._dropped += max(len(text) - 2 * MAX_KEPT, 0)
            text = text[-2 * MAX_KEPT :]
        self._pieces = [text]
        self._size = len(self._pieces[0])


class Reported(NamedTuple):
    """The reports of an ended call, as logged."""

    progress: Progress | None = None
    """The last progress."""
    printed: str = ""
    nested: tuple[NestedStart, ...] = ()
    """Nested runs that it started."""


NOTHING_REPORTED = Reported()


@dataclass(slots=True)
class CallReports:
    """Reports of a running call."""

    progress: CallProgress | None = None
    prints: CallPrints | None = None
    nested: list[NestedStart] = field(default_factory=list)

    def close(self) -> Reported:
        """Stop all reports and return those that are kept."""
        progress = None if self.progress is None else self.progress.close()
        return Reported(progress, "" if self.prints is None else self.prints.close(), tuple(self.nested))
