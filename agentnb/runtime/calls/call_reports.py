"""Reports of a running tool, from any thread: what it prints, kept up to a bound, and its progress."""

from __future__ import annotations

import asyncio
import math
import threading
from dataclasses import dataclass, field
from typing import NamedTuple

from agentnb.core.log.events import NestedStart, Progress, ToolPrinted, ToolProgress
from agentnb.core.messages import encodable
from agentnb.core.redaction import StreamRedactor, redact
from agentnb.errors import SettingsError
from agentnb.runtime.calls.throttle import Throttle
from agentnb.runtime.event_log import EventLog
from agentnb.settings import secrets

MAX_TEXT = 200
"""Characters kept of what a tool says that it is doing."""


class CallProgress:
    """The progress of one call. Reports may come from any thread, and after the call has ended, when they do nothing."""

    def __init__(self, log: EventLog, call_id: str, loop: asyncio.AbstractEventLoop) -> None:
        """``loop``: that of the run, on which the watchers are told."""
        self.last: Progress | None = None
        self._log = log
        self._call_id = call_id
        self._throttle = Throttle(self._tell, loop)

    def report(self, done: float, total: float | None, text: str) -> None:
        """Take a new state. Raises `SettingsError` if it has no finite numbers."""
        progress = Progress(_number("done", done), None if total is None else _number("total", total), _text(text))
        if not self._throttle.is_over:
            self.last = progress
            self._throttle.due()

    def close(self) -> Progress | None:
        """Tell nothing more, and return the last state."""
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
        raise SettingsError(f"{name}={value!r} of the progress is not a number", "Write context.progress(3, 10)")
    return number


def _text(text: str) -> str:
    return redact(encodable(str(text)))[:MAX_TEXT]  # in this order: part of a key would not be found


MAX_KEPT = 20_000
"""Characters kept of what one call prints: the last."""
MAX_LIVE = 2_000
"""Characters told while the tool runs: the last."""
LEFT_OUT = "[{:,} earlier characters were not kept]\n"


class CallPrints:
    """What one call has printed so far."""

    def __init__(self, log: EventLog, call_id: str, loop: asyncio.AbstractEventLoop) -> None:
        """``loop``: that of the run, on which the watchers are told."""
        self._log = log
        self._call_id = call_id
        self._throttle = Throttle(self._tell, loop)
        self._lock = threading.RLock()  # a finalizer may print meanwhile
        self._pieces: list[str] = []
        self._size = 0
        self._dropped = 0

    def write(self, text: str) -> None:
        """Append a text."""
        with self._lock:
            self._pieces.append(text)
            self._size += len(text)
            if self._size > 4 * MAX_KEPT:  # seldom, so that many short texts cost little
                self._shorten()
        self._throttle.due()

    def close(self) -> str:
        """Tell nothing more, and return the end of what was printed, and how much came before it."""
        self._throttle.close()
        with self._lock:
            text, dropped = as_shown("".join(self._pieces)), self._dropped
        text = encodable(text)
        if dropped or len(text) > MAX_KEPT:
            text = redact(text)  # before it is cut: part of a key would not be found
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
            text = redact(text)  # first: part of a key would not be found
            self._dropped += max(len(text) - 2 * MAX_KEPT, 0)
            text = text[-2 * MAX_KEPT :]
        self._pieces = [text]
        self._size = len(self._pieces[0])


def as_shown(text: str) -> str:
    """Return the text as a terminal shows it: of a line that was written again and again, such as a progress bar, the last."""
    if "\r" not in text:
        return text
    *lines, last = text.split("\n")
    # The last line may go on: what follows a carriage return at its end replaces it.
    shown = [line.rstrip("\r").rpartition("\r")[2] for line in lines]
    kept = last.rstrip("\r")
    return "\n".join([*shown, kept.rpartition("\r")[2] + last[len(kept) :]])


class Reported(NamedTuple):
    """The reports of an ended call, as its log holds them."""

    progress: Progress | None = None
    """The last."""
    printed: str = ""
    nested: tuple[NestedStart, ...] = ()
    """The runs that it began."""


NOTHING_REPORTED = Reported()


@dataclass(slots=True)
class CallReports:
    """The reports of a running call."""

    progress: CallProgress | None = None
    prints: CallPrints | None = None
    nested: list[NestedStart] = field(default_factory=list)

    def close(self) -> Reported:
        """Take no more of them, and return what is kept."""
        progress = None if self.progress is None else self.progress.close()
        return Reported(progress, "" if self.prints is None else self.prints.close(), tuple(self.nested))
