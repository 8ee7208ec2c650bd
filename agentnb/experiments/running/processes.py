"""Cells in worker processes: the same rows as in the kernel, functions of the notebook by value, keys through a pipe."""

from __future__ import annotations

import os
from dataclasses import dataclass, field

from agentnb.errors import NotAvailable
from agentnb.experiments.results.folder import ExperimentFolder, Memory
from agentnb.experiments.running.cell_runs import CellRun, Work
from agentnb.experiments.running.engine import Job
from agentnb.experiments.running.spending import CellSpending


def cores() -> int:
    """Return the number of processor cores."""
    return os.cpu_count() or 1


@dataclass
class InProcesses:
    """Runs cells in worker processes."""

    work: Work
    records: ExperimentFolder | Memory
    spending: CellSpending
    places: int = field(default_factory=cores)

    async def run(self, job: Job) -> CellRun:
        """Run a cell to its end."""
        raise NotAvailable("processes are not there yet")

    async def close(self) -> None:
        """End the processes."""
