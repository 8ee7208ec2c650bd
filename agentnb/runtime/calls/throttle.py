"""A throttle: passes reports from any thread to watchers, at most a few times a second, on the run's event loop."""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import Callable
from contextlib import suppress

from agentnb.runtime.questions.current_call import current_call
from agentnb.runtime.threads import running_loop

INTERVAL = 0.1
"""Minimum seconds between two calls of the function."""


class Throttle:
    """Calls a function soon after it is due, until closed."""

    def __init__(self, tell: Callable[[], None], loop: asyncio.AbstractEventLoop) -> None:
        self._tell = tell
        self._loop = loop
        self._lock = threading.RLock()  # a finalizer may print at the same time
        self._is_due = False
        self._timer: asyncio.TimerHandle | None = None
        self._next = 0.0
        self.is_over = False

    def due(self) -> None:
        """Schedule a call of the function, from any thread; no-op if one is already scheduled."""
        with self._lock:
            if self._is_due or self.is_over:
                return
            self._is_due = True
        # Watchers run outside the reporting call: their output, for example, is not the call's.
        context = contextvars.copy_context()
        context.run(current_call.set, None)
        if running_loop() is self._loop:
            context.run(self._schedule)
            return
        with suppress(RuntimeError):  # the loop was closed: the run is over
            self._loop.call_soon_threadsafe(self._schedule, context=context)

    def close(self) -> None:
        """Cancel all further calls."""
        with self._lock:
            self.is_over = True
        if self._timer is not None:
            self._timer.cancel()

    def _schedule(self) -> None:
        wait = self._next - self._loop.time()
        if wait > 0:
            self._timer = self._loop.call_later(wait, self._call)
        else:
            self._call()

    def _call(self) -> None:
        self._next = self._loop.time() + INTERVAL
        with self._lock:
            self._is_due, is_over = False, self.is_over
        if not is_over:
            self._tell()
