"""The elapsed time of a live run, excluding time in which no process worked on it."""

from __future__ import annotations

from datetime import datetime, timedelta

from agentnb.core.log.events import AnyEvent, RoundFinished, RunFinished, RunRecovered, RunStarted
from agentnb.core.run.wait_state import WaitState

MAX_SHOWN = 1e8
"""Maximum seconds counted from before a recovery: about three years."""


class Elapsed:
    """Counts the elapsed time of a run. Pass it every event.

    Waiting for the person counts as well, except in a run with ``max_seconds``, which shows only time that counts towards that
    limit.
    """

    def __init__(self) -> None:
        self._since: datetime | None = None
        self._rounds = 0.0
        self._holds = False
        self._wait_state = WaitState()
        self._held_at: datetime | None = None

    def take(self, event: AnyEvent) -> None:
        """Record an event."""
        self._wait_state.take(event)
        if isinstance(event, RunStarted):
            self._since = event.at
            self._holds = "max_seconds" in event.settings
        elif isinstance(event, RunRecovered):
            self._since, self._held_at = event.at and event.at - timedelta(seconds=min(self._rounds, MAX_SHOWN)), None
        elif isinstance(event, RoundFinished):
            self._rounds += event.seconds or 0.0
        elif isinstance(event, RunFinished) or (self._holds and not self._wait_state):
            self._release(event.at)
        elif self._holds and self._held_at is None:
            self._held_at = event.at

    def _release(self, at: datetime | None) -> None:
        if self._held_at is not None and self._since is not None and at is not None:
            self._since += at - self._held_at
        self._held_at = None

    @property
    def since(self) -> datetime | None:
        """The start time from which a clock without pauses would show the elapsed time; None while paused."""
        return None if self._held_at is not None else self._since

    @property
    def standing(self) -> float | None:
        """The elapsed seconds while paused; otherwise None."""
        if self._held_at is None or self._since is None:
            return None
        return max(0.0, (self._held_at - self._since).total_seconds())
