"""Runs cells in a user's pool: an executor of `concurrent.futures`, an object with the same interface, or a Dask cluster."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import BrokenExecutor, CancelledError
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Protocol

from msgspec.structs import replace

from agentnb.agent.portable import to_bytes
from agentnb.detect.run import Run
from agentnb.errors import AgentnbError, SettingsError
from agentnb.experiments.defaults import MAX_DEATHS
from agentnb.experiments.results.experiment_folder import ExperimentFolder, Records
from agentnb.experiments.results.rows import LOST
from agentnb.experiments.running.cell_work import CellRun, Job, Work, error_line, row_of_death
from agentnb.experiments.running.dask_cluster import GONE, DaskCluster
from agentnb.experiments.running.engine import Executor
from agentnb.experiments.running.pool_worker import OWN_VERSIONS, CellResult, problem_here, run_cell_here
from agentnb.experiments.running.processes import cores
from agentnb.experiments.running.spending import CellSpending
from agentnb.experiments.running.streamed_logs import Piece, StreamedLogs
from agentnb.runtime.runs.launch import new_run_id

POLL = 0.2
"""Seconds between polls of a future that has no callbacks."""
MAX_WAITS = 10
"""Maximum number of deaths of workers while a cell seems to be waiting, which do not count against it: news of a death may
overtake the message that the cell has started.
"""
REPEATED = "Dask ran the cell again: its worker died before the result was fetched"
"""Error of an execution that Dask repeated by itself."""
AHEAD = 2
"""Number of cells per thread submitted to a Dask cluster, so that the next one is queued before the last result arrives."""


class Pool(Protocol):
    """Runs functions elsewhere: an executor of `concurrent.futures`, a Dask client, or an object with the same `submit`."""

    @property
    def submit(self) -> Callable[..., Any]:
        """A function that takes a function and its arguments, and returns an object with `done` and `result`."""


@dataclass(slots=True)
class _Attempt:
    """A cell submitted to the pool. Further details are available only with Dask."""

    job: Job
    spent: dict[str, float] = field(default_factory=dict)
    """US dollars reported so far by each execution: Dask repeats a cell if its worker dies before the result is fetched."""


class InPool:
    """Runs cells in the user's own pool, which is neither started nor shut down here. Used on one event loop."""

    def __init__(
        self, pool: Pool, work: Work, records: Records, spending: CellSpending, places: int | None, in_kernel: Executor
    ) -> None:
        """``places``: number of concurrent cells; ``in_kernel``: runs recovered cells, whose logs exist only in this
        process.
        """
        self._here = in_kernel
        self._pool, self._work, self._records, self._spending = pool, work, records, spending
        client = _dask_client(pool)
        self._dask = None if client is None else DaskCluster(client, self._hear)
        self.places = places or threads_of(pool) * (AHEAD if self._dask else 1)
        self._data = b""
        self._checked: asyncio.Future[None] | None = None
        self._under_way: dict[str, _Attempt] = {}
        """Attempts by run id."""
        self._streamed = None if records.store is None else StreamedLogs(records.store)

    @property
    def waiting(self) -> int:
        """Number of cells submitted to the cluster that have not started."""
        attempts = [*self._under_way.values()]
        return sum(not attempt.spent for attempt in attempts) if self._dask else 0

    async def run(self, job: Job) -> CellRun:
        """Run a cell to its end, rerunning it if its worker died; each lost attempt is kept as a row.

        Raises `SettingsError` before the first cell if the workers cannot run any.
        """
        if job.begun is not None:
            return await self._here.run(job)
        if self._checked is None:
            self._checked = asyncio.ensure_future(self._check())
        await asyncio.shield(self._checked)
        deaths = waits = 0
        while deaths <= MAX_DEATHS:
            run_id = new_run_id()
            attempt = self._under_way[run_id] = _Attempt(job._replace(run_id=run_id))
            if self._streamed is not None:
                self._streamed.begin(run_id)
            try:
                result = await self._run(attempt.job)
            except (AgentnbError, asyncio.CancelledError):
                raise
            except Exception as error:  # of the pool; a failed run returns a row
                if isinstance(error, BrokenExecutor) or (self._dask is None and isinstance(error, CancelledError)):
                    raise _make_pool_error(error) from error
                if self._dask is not None:
                    await self._scatter()
                    if not attempt.spent and waits < MAX_WAITS:  # it was still queued at a worker that died
                        waits += 1
                        self._lose(run_id)
                        continue
                deaths += 1
                self._lose(run_id, error_line(error))
                job = job._replace(redone=True)
                self._spending.begin(job.cell.key, self._work.group_of(job))
                continue
            del self._under_way[run_id]
            self._spending.pay(job.cell.key, result.spent - attempt.spent.pop(result.execution, 0.0))
            self._keep(run_id, result)
            self._record_lost(attempt.job, REPEATED, attempt.spent.values())
            row = replace(result.row, redone="again") if attempt.spent else result.row
            return CellRun(row, None if result.events is None else Run.from_events(result.events))
        return CellRun(row_of_death(self._work, job, f"Its workers died {MAX_DEATHS + 1} times"), None)

    async def close(self) -> None:
        """Release the pool, which keeps running. Active cells are lost; Dask is asked to stop them."""
        if self._dask is not None:
            await asyncio.to_thread(self._dask.close, stop=bool(self._under_way))
        for run_id, attempt in [*self._under_way.items()]:
            only_waited = self._dask is not None and not attempt.spent
            self._lose(run_id, "" if only_waited else "The experiment ended before it")
        await self._here.close()

    async def _check(self) -> None:
        """Ask the workers whether they are able to run cells."""
        self._data = to_bytes(self._work, "The experiment")
        arguments = (self._data, OWN_VERSIONS, self._spending.limit)
        if self._dask is not None:
            problems = await asyncio.to_thread(self._dask.begin, *arguments)
        else:
            asked = [self._pool.submit(problem_here, *arguments) for _ in range(self.places)]
            problems = {f"worker {number}": await _result(future) for number, future in enumerate(asked, 1)}
        bad = {name: text for name, text in problems.items() if text}
        if bad:
            name, text = next(iter(bad.items()))
            more = f" (and {len(bad) - 1} more)" if len(bad) > 1 else ""
            raise SettingsError(
                f"{name}{more} cannot run the experiment: {text}", "Install the same versions and packages on its workers"
            )

    async def _scatter(self) -> None:
        assert self._dask is not None, "it is a Dask cluster"
        try:
            await asyncio.to_thread(self._dask.scatter, self._data)
        except GONE as error:
            raise _make_pool_error(error) from error

    async def _run(self, job: Job) -> CellResult:
        keeps_logs = self._records.store is not None
        try:
            if self._dask is None:
                future = self._pool.submit(run_cell_here, self._data, job, keeps_logs)
            else:
                future = self._dask.submit(job, keeps_logs)
        except Exception as error:  # shut down, or its client closed
            raise _make_pool_error(error) from error
        result: CellResult = await _result(future)
        return result

    def _hear(self, message: Mapping[str, Any]) -> None:
        """Handle a message from a worker about an attempt. Called on a thread of the Dask client."""
        run_id, execution, value = message["attempt"], message["execution"], message["value"]
        attempt = self._under_way.get(run_id)
        if attempt is None:  # abandoned, but its spending counts
            if message["kind"] == "paid":
                self._spending.pay("", value)
        elif message["kind"] == "began":
            if attempt.spent:
                self._put_logs_aside(run_id)
                self._spending.begin(attempt.job.cell.key, self._work.group_of(attempt.job))
                if self._streamed is not None:
                    self._streamed.begin(run_id)
            attempt.spent[execution] = 0.0
        elif message["kind"] == "paid":
            attempt.spent[execution] += value
            self._spending.pay(attempt.job.cell.key, value)
        elif self._streamed is not None:
            self._streamed.take(run_id, Piece(*value))

    def _keep(self, run_id: str, came: CellResult) -> None:
        """Write the logs of a run, each of them atomically."""
        if isinstance(self._records, ExperimentFolder) and self._streamed is not None:
            with self._streamed.ending(run_id):
                for name, data in came.logs.items():
                    self._records.add_log(name, data)

    def _lose(self, run_id: str, why: str = "") -> None:
        """Move away the logs of an attempt without a row. If ``why`` is given, the attempt is recorded as a row with this error
        and its known spending.
        """
        attempt, log_id = self._under_way.pop(run_id), self._put_logs_aside(run_id)
        *repeated, last = attempt.spent.values() or (None,)  # a plain pool reports nothing
        self._record_lost(attempt.job, REPEATED, repeated)
        if why:
            self._record_lost(attempt.job, why, [last], log_id)

    def _put_logs_aside(self, run_id: str) -> str:
        """Move away the logs of an attempt. Return the id of its run if there is a log of it, or an empty string."""
        if not isinstance(self._records, ExperimentFolder) or self._streamed is None:
            return ""
        with self._streamed.ending(run_id) as run_ids:
            self._records.put_aside(run_ids)
        return run_id if run_id in run_ids else ""

    def _record_lost(self, job: Job, why: str, costs: Iterable[float | None], log_id: str = "") -> None:
        for cost in costs:
            row = row_of_death(self._work, job, why)
            self._records.add(replace(row, run_id=log_id, status=LOST, cost=cost, at=datetime.now(UTC)))


def threads_of(pool: Any) -> int:
    """Return the number of cells that a pool can run at once: the threads of a Dask cluster's workers, otherwise the pool's own
    limit.
    """
    client = _dask_client(pool)
    return (sum(client.nthreads().values()) if client is not None else getattr(pool, "_max_workers", None)) or cores()


def _dask_client(pool: Any) -> Any:
    """Return the Dask client of a pool, if the pool has one. Used because the pool's executor would hide deaths."""
    client = getattr(pool, "_client", pool)
    return client if hasattr(client, "scheduler_info") else None


async def _result(future: Any) -> Any:
    """Return the result of any kind of future, whether it has callbacks or must be polled."""
    try:
        if hasattr(future, "add_done_callback"):
            loop, done = asyncio.get_running_loop(), asyncio.Event()
            future.add_done_callback(lambda _: _wake(loop, done))
            await done.wait()
        else:
            # Jobs of submitit have no callbacks, and its debug jobs run inside this call.
            while not await asyncio.to_thread(future.done):  # noqa: ASYNC110
                await asyncio.sleep(POLL)
        return await asyncio.to_thread(future.result)
    except asyncio.CancelledError:
        if hasattr(future, "cancel"):
            future.cancel()
        raise
    finally:
        if hasattr(future, "release"):  # Dask recomputes a result held by a worker that dies
            future.release()


def _wake(loop: asyncio.AbstractEventLoop, done: asyncio.Event) -> None:
    with suppress(RuntimeError):  # the event loop is closed
        loop.call_soon_threadsafe(done.set)


def _make_pool_error(error: Exception) -> SettingsError:
    return SettingsError(
        f"The pool is broken: {error_line(error)}", "Create a new pool, and run the experiment again to continue"
    )
