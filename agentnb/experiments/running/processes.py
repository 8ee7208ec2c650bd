"""Runs cells in worker processes, with the same rows as in the kernel. Notebook functions are sent by value, keys through a
pipe.
"""

from __future__ import annotations

import asyncio
import os
import pickle
import signal
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from multiprocessing.connection import Connection
from typing import Any

from agentnb.advice import Install
from agentnb.agent.portable import to_bytes
from agentnb.detect.run import Run
from agentnb.errors import AgentnbError, SettingsError
from agentnb.experiments.defaults import AT_A_TIME, MAX_DEATHS
from agentnb.experiments.results.experiment_folder import Records
from agentnb.experiments.running.cell_work import CellRun, Job, Work, row_of_death
from agentnb.experiments.running.cell_worker import Finished, Secrets, Setup, serve
from agentnb.experiments.running.spending import CellSpending
from agentnb.runtime.host.host import host_here
from agentnb.settings import kept_keys
from agentnb.tools.mcp.mcp_server import MCPServer


class WorkerDied(Exception):
    """The process that was running a cell ended without returning a row."""


def cores() -> int:
    """Return the number of processor cores."""
    return os.cpu_count() or 1


class InProcesses:
    """Runs cells in worker processes, which are started for the first cell. Used on one event loop."""

    waiting = 0

    def __init__(
        self,
        work: Work,
        records: Records,
        spending: CellSpending,
        places: int | None,
        continued: Callable[[Job], Job],
    ) -> None:
        """``places``: number of concurrent cells, run in at most as many processes as there are cores; ``continued``: returns
        the job with which to continue a cell whose process died.
        """
        self.processes = min(places or cores(), cores())
        self.places = places or self.processes * AT_A_TIME
        self._records = records
        self._spending = spending
        self._work = work
        self._continued = continued
        self._servers = _configured_servers()
        self._data: bytes | None = None
        self._workers: list[_Process] = []

    async def run(self, job: Job) -> CellRun:
        """Run a cell to its end, in another process if the first one dies."""
        deaths = 0
        while True:
            worker = self._least_busy()
            try:
                row, events = await worker.run(job)
            except WorkerDied:
                deaths += 1
                if deaths > MAX_DEATHS:
                    return CellRun(row_of_death(self._work, job, f"The process that ran it died {deaths} times"), None)
                job = self._continued(job)
                if job.redone:
                    self._spending.begin(job.cell.key, self._work.group_of(job))
                continue
            return CellRun(row, None if events is None else Run.from_events(events))

    async def close(self) -> None:
        """End the processes."""
        for worker in self._workers:
            worker.end()
        await asyncio.gather(*[asyncio.to_thread(worker.join) for worker in self._workers])
        self._workers.clear()

    def _least_busy(self) -> _Process:
        self._workers = [worker for worker in self._workers if worker.is_alive]
        if len(self._workers) < self.processes:
            self._workers.append(self._begin())
        return min(self._workers, key=lambda worker: len(worker.jobs))

    def _begin(self) -> _Process:
        if self._data is None:
            store = self._records.store
            setup = Setup(None if store is None else str(store.folder), self.processes)
            self._data = to_bytes((setup, self._work), "The experiment")
        return _Process(self._data, self._servers, self._spending, self._pass_on)

    def _pass_on(self, refusal: Any, source: _Process) -> None:
        for worker in self._workers:
            if worker is not source:
                worker.send(("refused", refusal))


class _Process:
    """A worker process and its jobs."""

    def __init__(
        self,
        data: bytes,
        servers: Sequence[MCPServer],
        spending: CellSpending,
        pass_on: Callable[[Any, _Process], None],
    ) -> None:
        context = _context()
        self._pipe: Connection
        self._pipe, theirs = context.Pipe()
        self._process = context.Process(target=serve, args=(theirs,), daemon=True)
        self._process.start()
        theirs.close()
        self.jobs: dict[str, asyncio.Future[Finished]] = {}
        self.is_alive = True
        self._spending = spending
        self._pass_on = pass_on
        self._loop = asyncio.get_running_loop()
        self._failure: AgentnbError | None = None
        threading.Thread(target=self._read, name="agentnb-worker", daemon=True).start()
        with suppress(OSError):  # it died: its jobs fail
            self._pipe.send_bytes(pickle.dumps(tuple(Secrets(kept_keys(), servers))))
            self._pipe.send_bytes(data)

    async def run(self, job: Job) -> Finished:
        """Run a cell in the process. Raises `WorkerDied`, or `SettingsError` if the process cannot read the work."""
        future: asyncio.Future[Finished] = self._loop.create_future()
        self.jobs[job.cell.key] = future
        try:
            if not self.is_alive:
                raise WorkerDied
            self.send(("job", job))
            return await future
        finally:
            self.jobs.pop(job.cell.key, None)

    def send(self, message: Any) -> None:
        """Send a message; ignored if the process has died."""
        with suppress(OSError):
            self._pipe.send(message)

    def end(self) -> None:
        """Ask the process to end, cancelling its active cells."""
        self.send(("end", None))

    def join(self) -> None:
        """Wait for the process to end, and kill it if a tool is blocking it."""
        self._process.join(5.0)
        if self._process.is_alive():
            kill_process(self._process.pid)
            self._process.join()
        self._pipe.close()

    def _read(self) -> None:
        while True:
            try:
                kind, payload = self._pipe.recv()
            except (EOFError, OSError, TypeError):  # closed
                break
            if kind == "paid":
                self._spending.pay(*payload)
            else:
                self._tell(self._take, kind, payload)
        self._tell(self._lose)

    def _tell(self, function: Callable[..., None], *arguments: Any) -> None:
        with suppress(RuntimeError):  # the event loop is closed
            self._loop.call_soon_threadsafe(function, *arguments)

    def _take(self, kind: str, payload: Any) -> None:
        if kind == "finished":
            future = self.jobs.get(payload.row.key)
            if future is not None and not future.done():
                future.set_result(payload)
        elif kind == "failed":
            key, error = payload
            if key in self.jobs and not self.jobs[key].done():
                self.jobs[key].set_exception(error)
        elif kind == "refused":
            self._pass_on(payload, self)
        else:
            self._failure = SettingsError(
                f"A worker process cannot read the experiment: {payload}",
                "Import dependencies inside the functions of its tools",
            )

    def _lose(self) -> None:
        self.is_alive = False
        for future in self.jobs.values():
            if not future.done():
                future.set_exception(self._failure or WorkerDied())


def _configured_servers() -> list[MCPServer]:
    """Return the MCP servers configured in this process."""
    servers = host_here().servers
    return [] if servers is None else [*servers.configuration.known.values()]


def _context() -> Any:
    try:
        from loky.backend import get_context  # type: ignore[import-untyped]  # it has no types
    except ImportError as error:
        raise SettingsError(
            "Running an experiment in separate processes requires the loky package",
            Install("agentnb[stats]", lead="Install it"),
        ) from error
    return get_context("loky")


def kill_process(process_id: int) -> None:
    """Kill a process without letting it clean up, since ``kill`` does not work for loky's processes."""
    os.kill(process_id, getattr(signal, "SIGKILL", signal.SIGTERM))
