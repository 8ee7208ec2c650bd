"""The table of a running experiment: one display of its cell, updated in place."""

from __future__ import annotations

import asyncio
import threading

from agentnb.experiments.running.control import Control, Progress
from agentnb.experiments.views.progress_view import progress_html, progress_text
from agentnb.notebook.views import Cell
from agentnb.runtime.threads import running_loop

INTERVAL = 0.25
"""Seconds between two updates."""
PULSE = 2.0
"""Seconds until the next update if no cell ends meanwhile: the time goes on too."""


class ProgressTable:
    """Watches an experiment and shows its progress in the cell that began it. Used from any thread."""

    def __init__(self, control: Control) -> None:
        self._control = control
        self._cell = Cell()
        self._lock = threading.RLock()
        self._state = ""
        self._timer: asyncio.TimerHandle | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        """The event loop of the timer."""

    def __call__(self, progress: Progress) -> None:
        """Draw a change of state at once, and anything else soon."""
        with self._lock:
            if progress.state != self._state:
                self._draw()
            else:
                self._draw_after(INTERVAL)

    def _draw_after(self, seconds: float) -> None:
        loop = running_loop()
        if loop is None:
            return
        due = loop.time() + seconds
        if self._timer is not None and self._loop is loop:
            if self._timer.when() <= due:
                return
            self._timer.cancel()
        self._loop, self._timer = loop, loop.call_later(seconds, self._draw)

    def _draw(self) -> None:
        with self._lock:
            if self._timer is not None and self._loop is running_loop():
                self._timer.cancel()
            self._timer = None
            progress = self._control.progress
            self._state = progress.state
            self._cell.keep({"text/plain": progress_text(progress), "text/html": progress_html(progress)})
            if not progress.is_over:
                self._draw_after(PULSE)
