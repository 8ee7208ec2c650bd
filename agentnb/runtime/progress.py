"""Progress of a running tool: told to watchers while it runs, a few times a second at most, from any thread."""

from __future__ import annotations

import asyncio
import math
import threading
from contextlib import suppress

from agentnb.core.events import Progress, ToolProgress
from agentnb.core.messages import encodable
from agentnb.core.redaction import redact
from agentnb.errors import SettingsError
from agentnb.runtime.event_log import EventLog
from agentnb.runtime.threads import running_loop

INTERVAL = 0.1
"""Seconds between two deltas of one call; what is reported in between is replaced by the next."""
MAX_TEXT = 200
"""Characters kept of what a tool says that it is doing."""


class CallProgress:
    """The progress of one call. Reports may come from any thread, and after the call has ended, when they do nothing."""

    def __init__(self, log: EventLog, call_id: str, loop: asyncio.AbstractEventLoop) -> None:
        """``loop``: that of the run, on which the watchers are told."""
        self.last: Progress | None = None
        self._log = log
        self._call_id = call_id
        self._loop = loop
        self._lock = threading.Lock()
        self._is_due = False
        """The last state is on its way to the watchers."""
        self._timer: asyncio.TimerHandle | None = None
        self._next = 0.0
        self._over = False

    def report(self, done: float, total: float | None, text: str) -> None:
        """Take a new state. Raises `SettingsError` if it has no finite numbers."""
        progress = Progress(_number("done", done), None if total is None else _number("total", total), _text(text))
        with self._lock:
            if self._over:
                return
            self.last = progress
            if self._is_due:
                return
            self._is_due = True
        if running_loop() is self._loop:
            self._schedule()
            return
        with suppress(RuntimeError):  # the loop was closed: the run is over
            self._loop.call_soon_threadsafe(self._schedule)

    def close(self) -> Progress | None:
        """Tell nothing more, and return the last state."""
        with self._lock:
            self._over = True
        if self._timer is not None:
            self._timer.cancel()
        return self.last

    def _schedule(self) -> None:
        wait = self._next - self._loop.time()
        if wait > 0:
            self._timer = self._loop.call_later(wait, self._tell)
        else:
            self._tell()

    def _tell(self) -> None:
        self._next = self._loop.time() + INTERVAL
        with self._lock:
            self._is_due, over, last = False, self._over, self.last
        if last is not None and not over:
            self._log.stream(ToolProgress(self._call_id, last))


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
