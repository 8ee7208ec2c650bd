"""The time limit of one tool call, suspended while a question of the call is open."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, suppress
from time import perf_counter


class CallClock:
    """The time limit of a call. Nearly all calls ask nothing, and then it does nothing."""

    # Defaults on the class, as there is one for each call.
    limit: asyncio.Timeout | None = None
    """Time limit of the call."""
    waited = 0.0
    """Seconds spent waiting for the person."""
    _loop: asyncio.AbstractEventLoop
    _outer: CallClock | None = None
    """That of the call whose tool makes this one: its time stands still too."""
    _asks = 0
    """Questions being asked, including the open ones."""
    _since = 0.0
    _left: float | None = None
    """Seconds left of a suspended time limit."""

    @contextmanager
    def stopped(self) -> Iterator[None]:
        """Suspend the time limit while a question is open."""
        self._asks += 1
        if self._asks == 1:
            self._stop()
        try:
            with self._outer.stopped() if self._outer is not None else nullcontext():
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
