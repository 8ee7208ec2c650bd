"""The line about many runs of one cell, in place of a card for each."""

from __future__ import annotations

import asyncio
import threading

from agentnb.detect.run import Run
from agentnb.display.card.many_runs import ManyRuns, many_runs_html
from agentnb.notebook.views import Cell
from agentnb.runtime.threads import running_loop

INTERVAL = 0.25
"""Seconds between two updates."""


class ProgressLine:
    """One output of a cell that counts its runs. Used from any thread."""

    def __init__(self) -> None:
        self._runs = ManyRuns()
        self._cell = Cell()
        self._lock = threading.RLock()
        self._timer: asyncio.TimerHandle | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    def add(self, run_id: str, run: Run) -> None:
        """Count this run from now on."""
        with self._lock:
            self._runs.add(run_id, run)

    def ended(self, run_id: str) -> None:
        """Count a run as ended, and draw: at once if it was the last."""
        with self._lock:
            self._runs.ended(run_id)
            if self._runs.is_over:
                self.draw()
            else:
                self.changed()

    def changed(self) -> None:
        """Draw soon."""
        with self._lock:
            loop = running_loop()
            if loop is not None and (self._timer is None or self._loop is not loop):
                self._loop, self._timer = loop, loop.call_later(INTERVAL, self.draw)

    def draw(self) -> None:
        """Show the line as it is now, and again soon while runs go on: the time goes on too."""
        with self._lock:
            if self._timer is not None:
                self._timer.cancel()
                self._timer = None
            self._cell.keep({"text/plain": self._runs.text, "text/html": many_runs_html(self._runs)})
            if not self._runs.is_over:
                self.changed()
