"""Runs the cells of an experiment that have no row, in order, only a limited number at a time."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from agentnb.detect.run import Run
from agentnb.experiments.planning.experiment_checks import Check
from agentnb.experiments.planning.judge_verdicts import Bench
from agentnb.experiments.planning.schedule import Schedule
from agentnb.experiments.results.experiment_folder import ExperimentFolder, Records
from agentnb.experiments.results.judged_rows import add_verdicts
from agentnb.experiments.results.rows import Row
from agentnb.experiments.running.cell_work import CellRun, Job, Resumable, Work, run_cell
from agentnb.experiments.running.control import Control
from agentnb.experiments.running.cut_runs import cell_of, resumable_run
from agentnb.experiments.running.spending import CellSpending
from agentnb.runtime.host.host import Host, host_here, use_host
from agentnb.runtime.servers.servers import Servers
from agentnb.store.store import load_file


class Executor(Protocol):
    """Runs cells: in this process, or in others."""

    places: int
    """Maximum number of submitted cells."""

    @property
    def waiting(self) -> int:
        """Number of submitted cells that have not started."""

    async def run(self, job: Job) -> CellRun:
        """Run a cell to its end."""

    async def close(self) -> None:
        """Release everything that the executor started."""


@dataclass(slots=True)
class InKernel:
    """Runs cells on the running event loop."""

    work: Work
    records: Records
    spending: CellSpending
    places: int
    waiting: int = 0
    _servers: Servers | None = None
    """MCP servers of an experiment that is running outside a session."""

    async def run(self, job: Job) -> CellRun:
        """Run a cell to its end."""
        servers = host_here().servers
        if servers is None:
            servers = self._servers = self._servers or Servers()
        account = self.spending.account_of(job.cell.key)
        return await run_cell(self.work, job, store=self.records.store, spending=account, servers=servers)

    async def close(self) -> None:
        """Close the MCP servers that were started here."""
        if self._servers is not None and self._servers.used:
            await asyncio.to_thread(self._servers.close)


@dataclass(slots=True)
class Engine:
    """Runs the missing cells of an experiment."""

    schedules: Sequence[Schedule]
    work: Work
    records: Records
    control: Control
    spending: CellSpending
    executor: Executor
    retried: dict[str, int] = field(default_factory=dict)
    """Cells to run again, each with the number of the attempt."""
    judges: Sequence[Check] = ()
    """Checks that ask a model. They always run in this process, so that each verdict is cached and paid for once."""
    _anew: set[str] = field(default_factory=set)
    """Cells whose runs were cut off and cannot be recovered."""
    _ended: asyncio.Event = field(default_factory=asyncio.Event)
    """Set whenever a cell ends, since that may free part of the budget."""

    async def run(self, rows: dict[str, Row]) -> None:
        """Run the cells without a row. ``rows``: the existing rows. A cancellation cancels the active cells."""
        done = {key for key in rows if key not in self.retried}
        own = {cell.key for schedule in self.schedules for cell in schedule} if rows else set()
        tasks: list[asyncio.Task[None]] = []

        def cancel() -> None:
            for task in tasks:
                task.cancel()

        self.control.begin([row for key, row in rows.items() if key in done and key in own], cancel)
        self.control.waiting = lambda: self.executor.waiting
        begun = self._find_begun(rows)
        jobs = self._jobs(done, begun)
        try:
            tasks += [asyncio.ensure_future(self._work(jobs)) for _ in range(self.executor.places)]
            await asyncio.wait(tasks, return_when=asyncio.FIRST_EXCEPTION)
            failed = next((task for task in tasks if task.done() and not task.cancelled() and task.exception()), None)
            if failed is not None:
                failed.result()
        finally:
            cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            await self.executor.close()
            self.control.end(spent=self.spending.is_spent)

    def _jobs(self, done: set[str], begun: dict[str, Resumable]) -> Iterator[Job]:
        for schedule in self.schedules:
            for cell in schedule:
                if cell.key not in done:
                    attempt = self.retried.get(cell.key, 1)
                    name = schedule.model_name(cell)
                    yield Job(cell, name, attempt, begun.get(cell.key), cell.key in self._anew)

    async def _work(self, jobs: Iterator[Job]) -> None:
        while await self._may_begin():
            job = next(jobs, None)
            if job is None:
                return
            self.spending.begin(job.cell.key, self.work.group_of(job))
            self.control.count_begun()
            try:
                row, run = await self.executor.run(job)
                row = await self._judge(row, run, job)
            except BaseException:
                self.control.count_cut_off()
                raise
            self.spending.end(job.cell.key)
            self._ended.set()
            self.records.add(row, run)
            self.control.count_finished(row)

    async def _judge(self, row: Row, run: Run | None, job: Job) -> Row:
        """Return the row with the judges' verdicts. An active cell is judged even if the budget is spent."""
        records = self.records
        if not self.judges or not row.run_id:
            return row
        if run is None and isinstance(records, ExperimentFolder):  # its run stayed in its process
            run = load_file(records.store.path(row.run_id))
        if run is None:
            return row
        account = self.spending.account_of(row.key)
        bench = Bench(records.verdicts, account, self.work.check_seconds, (f"experiment:{self.work.id}",))
        with use_host(Host()):
            return await add_verdicts(row, run, self.judges, bench, self.work.tasks[job.cell.task].row_for(job.cell.seed))

    async def _may_begin(self) -> bool:
        """Wait while the experiment is paused or active cells may use up the budget; return False at the end."""
        while await self.control.may_begin() and not self.spending.is_spent:
            if self.spending.has_room:
                return True
            self._ended.clear()
            await self._ended.wait()
        return False

    def _find_begun(self, rows: dict[str, Row]) -> dict[str, Resumable]:
        """Return the runs of cells without a row, by cell, if they have ended or can be recovered.

        The logs of all other runs are moved away, and their cells are run again.
        """
        records = self.records
        if not isinstance(records, ExperimentFolder):
            return {}
        recorded = {row.run_id for row in rows.values()}
        records.put_aside([rows[key].run_id for key in self.retried if key in rows and rows[key].run_id], recorded)
        run_ids: dict[str, str] = {}
        for run_id in records.store.ids():
            if run_id not in recorded and (key := cell_of(records, run_id)) is not None:
                if key in run_ids:
                    records.put_aside([run_ids[key]], recorded)
                run_ids[key] = run_id
        if not run_ids:  # the usual case
            return {}
        cells = {cell.key: cell for schedule in self.schedules for cell in schedule if cell.key in run_ids}
        resumable_runs: dict[str, Resumable] = {}
        for key, run_id in run_ids.items():
            if key not in cells:
                continue
            resumable = resumable_run(records, self.work, cells[key], run_id)
            if resumable is None:
                self._anew.add(key)
            else:
                resumable_runs[key] = resumable
        return resumable_runs
