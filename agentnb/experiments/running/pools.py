"""Cells in a pool of the person: an executor of `concurrent.futures`, what has its shape, or a Dask cluster."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from concurrent.futures import BrokenExecutor, CancelledError
from contextlib import suppress
from datetime import UTC, datetime
from functools import partial
from typing import Any, Protocol
from uuid import uuid4

from msgspec.structs import replace

from agentnb.agent.portable import to_bytes
from agentnb.detect.run import Run
from agentnb.errors import AgentnbError, SettingsError
from agentnb.experiments.defaults import MAX_DEATHS
from agentnb.experiments.results.folder import ExperimentFolder, Records
from agentnb.experiments.results.rows import LOST
from agentnb.experiments.running.cell_runs import CellRun, Job, Work, first_line, row_of_death
from agentnb.experiments.running.engine import Executor
from agentnb.experiments.running.pool_worker import HERE, Travelled, problem_here, run_cell_here
from agentnb.experiments.running.processes import cores
from agentnb.experiments.running.spending import CellSpending

POLL = 0.2
"""Seconds between looks at a future that calls nobody back."""
MAX_WAITS = 10
"""Deaths of workers at which a cell waits before they count as its own: what begins may not be told before a death."""
SCHEDULER = {"distributed.scheduler.allowed-failures": 0, "distributed.scheduler.worker-saturation": 1.0}
"""What a Dask scheduler must be set to: else it runs cells of a dead worker again unseen, or blames cells that only waited."""


class Pool(Protocol):
    """Runs functions elsewhere: an executor of `concurrent.futures`, a Dask client, or what has the same `submit`."""

    @property
    def submit(self) -> Callable[..., Any]:
        """Takes a function and its arguments; returns what has `done` and `result`."""


class InPool:
    """Runs cells in a pool that is not agentnb's: it neither starts nor ends it. Used on one event loop."""

    def __init__(
        self, pool: Pool, work: Work, records: Records, spending: CellSpending, places: int | None, here: Executor
    ) -> None:
        """``places``: cells at a time; ``here``: runs what goes on from a log, which only this process has."""
        self._here = here
        self._pool, self._work, self._records, self._spending = pool, work, records, spending
        client = getattr(pool, "_client", pool)  # `client.get_executor()` alone would hide what dies
        self._dask = _Dask(client) if hasattr(client, "scheduler_info") else None
        self.places = places or (self._dask.threads if self._dask else getattr(pool, "_max_workers", None)) or cores()
        self._data = b""
        self._checked: asyncio.Future[None] | None = None
        self._under_way: dict[str, Job] = {}
        """By attempt."""

    async def run(self, job: Job) -> CellRun:
        """Run a cell to its end, again if its worker died: each lost attempt is kept as a row.

        Raises `SettingsError` before the first cell if the workers cannot run any.
        """
        if job.begun is not None:
            return await self._here.run(job)
        if self._checked is None:
            self._checked = asyncio.ensure_future(self._check())
        await asyncio.shield(self._checked)
        deaths = waits = 0
        while deaths <= MAX_DEATHS:
            name = f"{job.cell.key}-{uuid4().hex[:8]}"
            self._under_way[name] = job
            try:
                came = await self._attempt(job, name)
            except (AgentnbError, asyncio.CancelledError):
                raise
            except Exception as error:  # of the pool: a run that fails is a row
                if isinstance(error, BrokenExecutor) or (self._dask is None and isinstance(error, CancelledError)):
                    raise _broken(error) from error
                if self._dask is not None:
                    await asyncio.to_thread(self._dask.scatter, self._data)
                    if name not in self._dask.begun and waits < MAX_WAITS:  # it only waited at a worker that died
                        waits += 1
                        del self._under_way[name]
                        continue
                deaths += 1
                self._lose(name, first_line(error))
                job = job._replace(redone=True)
                continue
            del self._under_way[name]
            known = self._dask.take(name) if self._dask else 0.0
            self._spending.pay(came.spent - known)
            self._keep(came)
            return CellRun(came.row, None if came.events is None else Run.from_events(came.events))
        return CellRun(row_of_death(self._work, job, f"Its workers died {MAX_DEATHS + 1} times"), None)

    async def close(self) -> None:
        """Let go of the pool, which goes on. What it still runs is lost: Dask is asked to stop it."""
        if self._dask is not None:
            await asyncio.to_thread(self._dask.close, stop=bool(self._under_way))
        for name in [*self._under_way]:
            self._lose(name, "The experiment ended before it")
        await self._here.close()

    async def _check(self) -> None:
        """Ask the workers whether they can run cells."""
        self._data = to_bytes(self._work, "The experiment")
        given = (self._data, HERE, self._spending.limit)
        if self._dask is not None:
            found = await asyncio.to_thread(self._dask.begin, given, self._spending)
        else:
            asked = [self._pool.submit(problem_here, *given) for _ in range(self.places)]
            found = {f"worker {place}": await _result(future) for place, future in enumerate(asked, 1)}
        bad = {name: text for name, text in found.items() if text}
        if bad:
            name, text = next(iter(bad.items()))
            more = f" (and {len(bad) - 1} more)" if len(bad) > 1 else ""
            raise SettingsError(f"{name}{more} cannot run the experiment: {text}", "Set its workers up like this kernel")

    async def _attempt(self, job: Job, name: str) -> Travelled:
        keeps_logs = self._records.store is not None
        try:
            if self._dask is None:
                future = self._pool.submit(run_cell_here, self._data, job, keeps_logs)
            else:
                future = self._dask.submit(job, keeps_logs, name)
        except Exception as error:  # it was shut down, or its client closed
            raise _broken(error) from error
        came: Travelled = await _result(future)
        return came

    def _keep(self, came: Travelled) -> None:
        """Write the logs of a run, each whole or not at all."""
        if isinstance(self._records, ExperimentFolder):
            for run_id, data in came.logs.items():
                self._records.add_log(run_id, data)

    def _lose(self, name: str, why: str) -> None:
        """Keep an attempt that gives no row as one, with the spending that is known of it."""
        job = self._under_way.pop(name)
        spent = self._dask.take(name) if self._dask else None  # a plain pool tells nothing
        row = row_of_death(self._work, job, why)
        self._records.add(replace(row, status=LOST, cost=spent, at=datetime.now(UTC)))


class _Dask:
    """A Dask cluster, seen from a client. Its workers tell what begins and what is spent."""

    def __init__(self, client: Any) -> None:
        self._client = client
        self._topic = f"agentnb-{uuid4().hex}"
        self._spent: Counter[str] = Counter()
        """By attempt, the US dollars that its worker has told of."""
        self.begun: set[str] = set()
        """The attempts that have begun."""
        self._data: Any = None

    @property
    def threads(self) -> int:
        """The threads of all its workers."""
        return int(sum(self._client.nthreads().values()))

    def begin(self, given: tuple[Any, ...], spending: CellSpending) -> dict[str, str]:
        """Return why its workers cannot run cells, by worker. Raises `SettingsError` for a scheduler that hides deaths."""
        settings = self._client.run_on_scheduler(partial(_settings_of_scheduler, [*SCHEDULER]))
        wrong = {name: value for name, value in SCHEDULER.items() if settings[name] != value}
        if wrong:
            have = ", ".join(f"{name} is {settings[name]}" for name in wrong)
            what = f"The scheduler would run cells of a dead worker again unseen, or blame others: {have}"
            raise SettingsError(what, f"Before the cluster starts: dask.config.set({wrong!r})")

        def note(event: tuple[Any, Any]) -> None:
            told = event[1]
            if told["kind"] == "began":
                self.begun.add(told["attempt"])
            elif told["kind"] == "paid":
                self._spent[told["attempt"]] += told["dollars"]
                spending.pay(told["dollars"])

        self._client.subscribe_topic(self._topic, note)
        self.scatter(given[0])
        found: dict[str, str] = self._client.run(problem_here, *given)
        return found

    def scatter(self, data: bytes) -> None:
        """Give the work to all workers, again after a death: those that had it may be gone."""
        self._data = self._client.scatter(data, broadcast=True, hash=False)

    def submit(self, job: Job, keeps_logs: bool, name: str) -> Any:
        """Have a worker run a cell once: a key for each attempt, which no worker is given again."""
        key = f"agentnb-{name}"
        return self._client.submit(
            run_cell_here, self._data, job, keeps_logs, self._topic, name, key=key, pure=False, retries=0
        )

    def take(self, name: str) -> float:
        """Return the dollars that are known of an attempt."""
        return self._spent.pop(name, 0.0)

    def close(self, *, stop: bool) -> None:
        """Listen no longer. ``stop``: ask what still runs to end."""
        from distributed import Event

        with suppress(Exception):  # the cluster may be gone
            if stop:
                Event(self._topic, client=self._client).set()  # type: ignore[no-untyped-call]  # it has no types
            self._client.unsubscribe_topic(self._topic)


def _settings_of_scheduler(names: list[str]) -> dict[str, Any]:
    import dask

    return {name: dask.config.get(name, None) for name in names}


async def _result(future: Any) -> Any:
    """Return the result of a future, of any kind: one that calls back, or one that only says whether it is done."""
    try:
        if hasattr(future, "add_done_callback"):
            loop, done = asyncio.get_running_loop(), asyncio.Event()
            future.add_done_callback(lambda _: _wake(loop, done))
            await done.wait()
        else:
            while not future.done():  # noqa: ASYNC110  # jobs of submitit call nobody back
                await asyncio.sleep(POLL)
        return await asyncio.to_thread(future.result)
    except asyncio.CancelledError:
        if hasattr(future, "cancel"):
            future.cancel()
        raise
    finally:
        if hasattr(future, "release"):  # of Dask: a result that stays on a worker would be made again if that died
            future.release()


def _wake(loop: asyncio.AbstractEventLoop, done: asyncio.Event) -> None:
    with suppress(RuntimeError):  # the event loop is closed
        loop.call_soon_threadsafe(done.set)


def _broken(error: Exception) -> SettingsError:
    return SettingsError(f"The pool is broken: {first_line(error)}", "Make a new one, and run the experiment again: it goes on")
