"""The time limit of one tool call, which is suspended while a question of the call is open."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, suppress
from time import perf_counter


class CallClock:
    """The time limit of a call. It does nothing in most calls, since they ask no questions."""

    # Class defaults, since there is an instance for each call.
    limit: asyncio.Timeout | None = None
    """Time limit of the call."""
    waited = 0.0
    """Seconds spent waiting for the person so far."""
    max_seconds: float | None = None
    """Maximum seconds of a call that reports progress, or None if progress does not extend the limit."""
    is_prolonged = False
    """True if progress has extended the limit."""
    _began = 0.0
    _seconds = 0.0
    _loop: asyncio.AbstractEventLoop
    _outer: CallClock | None = None
    """Clock of the call whose tool makes this call; it is suspended too."""
    _asks = 0
    """Number of open questions, including those about to be asked."""
    _since = 0.0
    _left: float | None = None
    """Seconds left when the time limit was suspended."""

    def begin(self, limit: asyncio.Timeout, seconds: float, max_seconds: float | None) -> None:
        """Start with this time limit. Each progress report then restarts it with ``seconds``, up to ``max_seconds``
        in total.
        """
        self.limit, self.max_seconds, self._seconds, self._began = limit, max_seconds, seconds, self._loop.time()

    def prolong(self) -> None:
        """Extend the time limit of a call that reports progress. Thread-safe."""
        if self.max_seconds is not None:
            with suppress(RuntimeError):  # the loop was closed
                self._loop.call_soon_threadsafe(self._prolong, self.max_seconds)

    def _prolong(self, most: float) -> None:
        when = None if self.limit is None else self.limit.when()
        until = min(self._loop.time() + self._seconds, self._began + self.waited + most)
        if when is not None and until > when:  # suspended while a question is open
            self.is_prolonged = True
            self._set_limit(until)

    @property
    def worked(self) -> float:
        """Seconds since the call began, excluding time spent waiting for the person."""
        return self._loop.time() - self._began - self.waited

    @contextmanager
    def suspend_limit(self) -> Iterator[None]:
        """Suspend the time limit while a question is open."""
        self._asks += 1
        if self._asks == 1:
            self._stop()
        try:
            with self._outer.suspend_limit() if self._outer is not None else nullcontext():
                yield
        finally:
            self._asks -= 1
            if not self._asks:
                self._start()

    def _stop(self) -> None:
        self._since = perf_counter()
        when = self.limit.when() if self.limit is not None else None
        self._left = None if when is None else when - self._loop.time()
        self._set_limit(None)

    def _start(self) -> None:
        self.waited += perf_counter() - self._since
        if self._left is not None:
            self._set_limit(self._loop.time() + self._left)

    def _set_limit(self, when: float | None) -> None:
        if self.limit is not None:
            with suppress(RuntimeError):  # it has expired, or the call has just ended
                self.limit.reschedule(when)
