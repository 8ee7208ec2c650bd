"""Elapsed time of a run, and its time limit. The clock pauses while the run waits for the person."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from datetime import datetime
from time import perf_counter

from agentnb.core.log.events import AnyEvent, RunRecovered
from agentnb.core.run.wait_state import WaitState


def seconds_taken(events: Iterable[AnyEvent]) -> float:
    """Return the elapsed seconds of a run up to its last event, as a `Clock` counts them, across all its processes."""
    seconds, wait_state = 0.0, WaitState()
    before: datetime | None = None
    for event in events:
        if before is not None and event.at is not None and not wait_state and not isinstance(event, RunRecovered):
            seconds += (event.at - before).total_seconds()
        before = event.at or before
        wait_state.take(event)
    return seconds


def ignore() -> None:
    """Do nothing. Default listener: a single function, since a lambda per run would cost memory."""


class Clock:
    """A stopwatch with an optional time limit. Used on the run's event loop."""

    def __init__(self, limit: float | None = None, *, before: float = 0.0) -> None:
        """``limit``: seconds until time is up, or None for no limit; ``before``: seconds already elapsed."""
        self.limit = limit
        self.taken = before
        """Seconds elapsed until the clock was last halted."""
        self._since: float | None = None
        self._holds = 0
        self._timer: asyncio.TimerHandle | None = None
        self._up: Callable[[], None] = ignore

    def start(self, up: Callable[[], None]) -> None:
        """Start counting; ``up`` is called once, when time is up."""
        self._up = up
        self._go()

    def stop(self) -> None:
        """Stop counting and discard the limit."""
        self._halt()
        self._up = ignore
        self.limit = None

    def hold(self) -> None:
        """Pause the clock until every `hold` has had its `release`."""
        self._holds += 1
        if self._holds == 1:
            self._halt()

    def release(self) -> None:
        """Undo one `hold`; resume counting if it was the last."""
        self._holds -= 1
        if not self._holds:
            self._go()

    @property
    def seconds(self) -> float:
        """Seconds elapsed so far."""
        return self.taken + (0.0 if self._since is None else perf_counter() - self._since)

    def _go(self) -> None:
        self._since = perf_counter()
        if self.limit is not None:
            self._timer = asyncio.get_running_loop().call_later(max(0.0, self.limit - self.taken), self._up)

    def _halt(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._since is not None:
            self.taken, self._since = self.seconds, None
