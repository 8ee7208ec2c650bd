"""Reads runs from files, with a progress line if this takes a while."""

from __future__ import annotations

from time import perf_counter
from typing import Any

from agentnb.display.texts.labels import duration, pluralize
from agentnb.interchange.files import Runs, RunSource, iter_traces
from agentnb.interchange.trace_file import Problem
from agentnb.notebook.views import Cell
from agentnb.notebook.widget_tools import has_kernel

PROGRESS_DELAY = 1.0
"""Seconds before progress is shown."""
INTERVAL = 0.25
"""Seconds between updates."""


def read_runs(source: RunSource, shell: Any, *, strict: bool) -> Runs:
    """Return the source's runs and any problems in reading them. A notebook shows a progress line."""
    problems: list[Problem] = []
    runs = Runs()
    line = _Line(is_shown=has_kernel(shell))
    for run in iter_traces(source, strict=strict, problems=problems):
        runs.append(run)
        line.read(len(runs))
    line.end(len(runs))
    runs.problems += problems
    return runs


class _Line:
    """Progress line with the number of runs read, shown only if reading takes a while."""

    def __init__(self, *, is_shown: bool) -> None:
        self._is_shown = is_shown
        self._began = self._shown = perf_counter()
        self._cell: Cell | None = None

    def read(self, count: int) -> None:
        """Update the displayed count if an update is due."""
        at = perf_counter()
        if self._is_shown and at - self._began >= PROGRESS_DELAY and at - self._shown >= INTERVAL:
            self._shown = at
            self._show(f"Reading: {pluralize(count, 'run')} so far")

    def end(self, count: int) -> None:
        """Show the total time if the line is visible."""
        if self._cell is not None:
            self._show(f"Read {pluralize(count, 'run')} in {duration(perf_counter() - self._began)}")

    def _show(self, text: str) -> None:
        self._cell = self._cell or Cell()
        self._cell.keep({"text/plain": text})
