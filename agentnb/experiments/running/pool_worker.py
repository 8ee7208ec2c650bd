"""Runs one cell in a worker of a pool: receives the work as bytes, and returns the row, the logs and the spending."""

from __future__ import annotations

import asyncio
import pickle
import sys
import threading
from collections.abc import Callable, Coroutine, Mapping
from functools import lru_cache, partial
from importlib.metadata import version
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple
from uuid import uuid4

from agentnb.agent.agent import Agent
from agentnb.core.log.events import AnyEvent
from agentnb.errors import AgentnbError
from agentnb.experiments.planning.content_hash import servers_of_workflow
from agentnb.experiments.planning.plan_problems import check_models
from agentnb.experiments.results.rows import Row
from agentnb.experiments.running.cell_work import CellRun, Job, Work, run_cell
from agentnb.experiments.running.rate import Refusal, SharedLimits
from agentnb.experiments.running.spending import CellAccount
from agentnb.experiments.running.streamed_logs import LogTail
from agentnb.models.transport.connections import Account, CallLimits
from agentnb.runtime.servers.servers import Servers
from agentnb.store.store import Store

TICK = 0.1
"""Seconds between pieces of a log."""
LOOK = 10
"""Number of ticks between checks of whether the experiment has been stopped."""
OWN_VERSIONS = f"agentnb {version('agentnb')}, Python {sys.version_info[0]}.{sys.version_info[1]}"
"""Versions that must be the same in the kernel and in each worker, because functions are sent as code."""


class CellResult(NamedTuple):
    """The result of a cell, as a worker sends it back."""

    row: Row
    events: list[AnyEvent] | None
    """The events of the run, unless logs are stored in a folder."""
    logs: Mapping[str, bytes]
    """The logs of the run and its nested runs, by run id."""
    spent: float
    """US dollars spent."""
    execution: str = ""
    """Name of the execution that produced it, on Dask."""


def run_cell_here(
    data: bytes,
    job: Job,
    keeps_logs: bool,
    pay: Callable[[float], object] = lambda dollars: None,
    limits: CallLimits | None = None,
    until_stopped: Callable[[Coroutine[Any, Any, CellRun], LogTail], Coroutine[Any, Any, CellRun]] = lambda cell, _: cell,
) -> CellResult:
    """Run a cell to its end. ``data``: its work, from `to_bytes`.

    ``pay``: called with each amount spent; ``until_stopped``: awaits the cell, and may read its logs while waiting.
    """
    spent = list[float]()

    def take(dollars: float) -> None:
        spent.append(dollars)
        pay(dollars)

    with TemporaryDirectory(prefix="agentnb-") as folder:
        store = Store(folder) if keeps_logs else None
        running = run_cell(_work(data), job, store=store, spending=CellAccount(take), limits=limits, servers=_servers())
        row, run = asyncio.run(until_stopped(running, LogTail(Path(folder))))
        logs = {} if store is None else {run_id: store.path(run_id).read_bytes() for run_id in store.ids()}
    events = None if keeps_logs or run is None else [*run.events]
    return CellResult(row, events, logs, sum(spent))


def run_cell_on_dask(data: bytes, job: Job, keeps_logs: bool, topic: str, workers: int) -> CellResult:
    """Run a cell in a Dask worker, which reports its start, spending and log to the kernel under ``topic``.

    All reports have reached the scheduler when the call returns, since any that were still queued in the worker would be lost
    if it died. The ``workers`` share the provider's rate.
    """
    from distributed import get_client

    client, execution = get_client(), uuid4().hex

    def tell(kind: str, value: Any = None) -> None:
        client.log_event(topic, {"attempt": job.run_id, "execution": execution, "kind": kind, "value": value})

    async def until_stopped(cell: Coroutine[Any, Any, CellRun], tail: LogTail) -> CellRun:
        return await _report_until_stopped(cell, tail, partial(tell, "log"), _stop_of(client, topic))

    tell("began")
    pay = partial(tell, "paid")
    result = run_cell_here(data, job, keeps_logs, pay, _limits(client, topic, workers), until_stopped)
    return result._replace(execution=execution)


def problem_here(data: bytes, versions: str, budget: float | None) -> str:
    """Return the problem that prevents this process from running the work, or an empty string.

    Possible problems: different versions, a missing tool, key or model, or an undefined MCP server, since workers have no
    configuration.
    """
    if versions != OWN_VERSIONS:
        return f"it has {OWN_VERSIONS}, but the kernel has {versions}"
    try:
        work = _work(data)
        for variant in work.variants:
            runnable = variant.work
            _servers().resolve(runnable.toolbox.servers if isinstance(runnable, Agent) else servers_of_workflow(runnable))
        return "; ".join(check_models(work.variants, [model for model in work.models if model is not None], budget))
    except AgentnbError as error:
        return str(error)
    except Exception as error:  # any import failure
        return f"it cannot read the experiment: {type(error).__name__}: {error}"


async def _report_until_stopped(
    cell: Coroutine[Any, Any, CellRun], tail: LogTail, tell: Callable[[Any], None], is_stopped: Callable[[], bool]
) -> CellRun:
    """Await a cell, reporting its log meanwhile, and cancel it when the experiment is stopped."""

    def tell_log() -> None:
        for piece in tail.pieces():
            tell(tuple(piece))

    task, ticks = asyncio.ensure_future(cell), 0
    while not (await asyncio.wait([task], timeout=TICK))[0]:
        await asyncio.to_thread(tell_log)
        ticks += 1
        if ticks % LOOK == 0 and await asyncio.to_thread(is_stopped):
            task.cancel()
            break
    return await task


def _stop_of(client: Any, topic: str) -> Callable[[], bool]:
    """Return a function that returns True once the experiment has been stopped."""
    from distributed import Event

    is_set: Callable[[], bool] = Event(topic, client=client).is_set  # type: ignore[no-untyped-call]  # it has no types
    return is_set


_making_limits = threading.Lock()


def _limits(client: Any, topic: str, workers: int) -> CallLimits:
    """Return this process's rate limiters, which are informed of refusals in other workers."""
    with _making_limits:  # shared by the threads of a worker
        return _limits_of(client, f"{topic}-refused", workers)


@lru_cache(maxsize=1)
def _limits_of(client: Any, topic: str, workers: int) -> CallLimits:
    own = uuid4().hex

    def tell(refusal: Refusal) -> None:
        client.log_event(topic, [own, *refusal])

    def take(event: tuple[Any, list[Any]]) -> None:
        source, account, seconds, asked = event[1]
        if source != own:
            shared.take((Account(*account), seconds, asked))

    shared = SharedLimits(workers, tell)
    client.subscribe_topic(topic, take)
    return shared.limits


@lru_cache(maxsize=1)
def _work(data: bytes) -> Work:
    work: Work = pickle.loads(data)
    return work


@lru_cache(maxsize=1)
def _servers() -> Servers:
    """Return the MCP servers of this process, which cells share."""
    return Servers()
