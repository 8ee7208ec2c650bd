"""A running experiment, which others can watch and control from any thread: its progress, pause and stop."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from time import monotonic
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from agentnb.experiments.results.rows import Row

OVER = ("done", "stopped", "budget")
"""States of an experiment that has ended."""


@dataclass(frozen=True, slots=True)
class Progress:
    """The progress of an experiment."""

    id: str
    total: int
    """Number of cells in the experiment."""
    done: int = 0
    """Number of cells with a row, including those from earlier processes."""
    running: int = 0
    reasons: tuple[tuple[str, int], ...] = ()
    """Reasons why runs did not complete, with the number of runs, most frequent first."""
    cost: float | None = 0.0
    """Cost in US dollars of all finished cells, including their judging; None if the cost of any cell is unknown."""
    cost_expected: float | None = None
    """The estimate for all cells, if any."""
    budget: float | None = None
    seconds: float = 0.0
    """Seconds since this process began."""
    done_here: int = 0
    """Number of cells that this process finished."""
    state: str = "running"
    """``running``, ``paused``, ``stopping``, ``done``, ``stopped`` or ``budget``."""

    @property
    def failed(self) -> int:
        """Number of runs that did not complete."""
        return sum(count for _, count in self.reasons)

    @property
    def is_over(self) -> bool:
        """True if the experiment has ended, whether or not all cells are done."""
        return self.state in OVER

    @property
    def rate(self) -> float | None:
        """Cells per second in this process, or None until the first cell has finished."""
        return self.done_here / self.seconds if self.done_here and self.seconds else None

    @property
    def seconds_left(self) -> float | None:
        """Estimated seconds until the end at this rate, or None until the first cell has finished."""
        return None if self.rate is None else (self.total - self.done) / self.rate


ProgressWatcher: TypeAlias = Callable[[Progress], object]


def _none_waiting() -> int:
    return 0


@dataclass(slots=True)
class Control:
    """Accepts pause and stop requests from any thread, and informs its watchers of each finished cell."""

    id: str
    total: int
    cost_expected: float | None = None
    budget: float | None = None
    watchers: list[ProgressWatcher] = field(default_factory=list)
    waiting: Callable[[], int] = _none_waiting
    """Returns the number of submitted cells that have not started."""
    _done: int = 0
    _done_here: int = 0
    _running: int = 0
    _reasons: Counter[str] = field(default_factory=Counter)
    _cost: float | None = 0.0
    _begun: float = field(default_factory=monotonic)
    _state: str = "running"
    _paused: bool = False
    _loop: asyncio.AbstractEventLoop | None = None
    _woken: asyncio.Event | None = None
    _stop: Callable[[], None] | None = None

    @property
    def progress(self) -> Progress:
        """The current progress."""
        state = "paused" if self._paused and self._state == "running" else self._state
        return Progress(
            self.id,
            self.total,
            self._done,
            max(0, self._running - self.waiting()),
            tuple(self._reasons.most_common()),
            self._cost,
            self.cost_expected,
            self.budget,
            monotonic() - self._begun,
            self._done_here,
            state,
        )

    def pause(self) -> None:
        """Start no further cells; active ones continue."""
        self._paused = True
        self._tell()

    def resume(self) -> None:
        """Start further cells again."""
        self._paused = False
        self._wake()
        self._tell()

    def stop(self) -> None:
        """Start no further cells, and cancel active ones. Cancelled cells have no row, and are run when the experiment
        continues.
        """
        if self._state in ("running", "paused"):
            self._state = "stopping"
            loop, stop = self._loop, self._stop
            if loop is not None and stop is not None and not loop.is_closed():
                loop.call_soon_threadsafe(stop)
            self._wake()
            self._tell()

    # For the engine

    def begin(self, rows: list[Row], stop: Callable[[], None]) -> None:
        """Count the rows from earlier processes. ``stop`` is called on this event loop."""
        self._loop, self._woken, self._stop = asyncio.get_running_loop(), asyncio.Event(), stop
        self._begun = monotonic()
        for row in rows:
            self._count(row)
        self._tell()

    @property
    def is_stopping(self) -> bool:
        """True once the experiment has been stopped."""
        return self._state == "stopping"

    async def may_begin(self) -> bool:
        """Wait while paused; return False once stopped."""
        assert self._woken is not None, "it has begun"
        while self._paused and not self.is_stopping:
            self._woken.clear()
            await self._woken.wait()
        return not self.is_stopping

    def count_begun(self) -> None:
        """Count a cell that is starting."""
        self._running += 1

    def count_cut_off(self) -> None:
        """Stop counting a cell that was cut off."""
        self._running -= 1

    def count_finished(self, row: Row) -> None:
        """Count a finished cell, and inform the watchers."""
        self._running -= 1
        self._done_here += 1
        self._count(row)
        self._tell()

    def end(self, *, spent: bool) -> None:
        """Record the end of the experiment."""
        is_whole = self._done >= self.total and not self.is_stopping
        self._state = "done" if is_whole else "budget" if spent and not self.is_stopping else "stopped"
        self.waiting, self._stop = _none_waiting, None  # a session keeps the control, and need not keep the runs
        self._tell()

    def _count(self, row: Row) -> None:
        self._done += 1
        if not row.is_completed:
            self._reasons[row.stop_reason or row.status] += 1
        self._cost = None if self._cost is None or row.spent is None else self._cost + row.spent

    def _wake(self) -> None:
        if self._loop is not None and self._woken is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._woken.set)

    def _tell(self) -> None:
        for watcher in [*self.watchers]:
            try:
                watcher(self.progress)
            except Exception:  # a view that fails is dropped: the experiment goes on
                self.watchers.remove(watcher)
