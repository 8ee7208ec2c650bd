"""One cell in a worker of a pool: its work comes as bytes, and its row, its logs and its spending go back whole."""

from __future__ import annotations

import asyncio
import pickle
import sys
from collections.abc import Callable, Coroutine, Mapping
from functools import lru_cache
from importlib.metadata import version
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

from agentnb.agent.agent import Agent
from agentnb.core.log.events import AnyEvent
from agentnb.errors import AgentnbError
from agentnb.experiments.planning.content import servers_of_workflow
from agentnb.experiments.planning.problems import check_models
from agentnb.experiments.results.rows import Row
from agentnb.experiments.running.cell_runs import CellRun, Job, Work, run_cell
from agentnb.experiments.running.spending import SentSpending
from agentnb.runtime.servers.servers import Servers
from agentnb.store.store import Store

LOOK = 1.0
"""Seconds between looks at whether the experiment was stopped."""
HERE = f"agentnb {version('agentnb')}, Python {sys.version_info[0]}.{sys.version_info[1]}"
"""The versions that must be the same in the kernel and in each worker: functions travel as code."""


class Travelled(NamedTuple):
    """A finished cell, on its way back."""

    row: Row
    events: list[AnyEvent] | None
    """The events of its run, if no folder keeps logs."""
    logs: Mapping[str, bytes]
    """The logs of the run and of its nested runs, by its id."""
    spent: float
    """US dollars."""


def run_cell_here(data: bytes, job: Job, keeps_logs: bool, topic: str = "", name: str = "") -> Travelled:
    """Run a cell to its end. ``data``: its work, from `to_bytes`.

    ``topic``, in a Dask worker: the topic under which it tells the kernel that the cell has begun, and each dollar that it
    spends, which is then known if the worker dies; ``name``: what it calls the attempt there.
    """
    tell, spent = _teller(topic, name), list[float]()

    def pay(message: tuple[str, float]) -> None:
        spent.append(message[1])
        tell(*message)

    tell("began", 0.0)
    with TemporaryDirectory(prefix="agentnb-") as folder:
        store = Store(folder) if keeps_logs else None
        running = run_cell(_work(data), job, store=store, spending=SentSpending(pay), servers=_servers())
        row, run = asyncio.run(_until_stopped(running, topic))
        logs = {} if store is None else {run_id: store.path(run_id).read_bytes() for run_id in store.ids()}
    events = None if keeps_logs or run is None else [*run.events]
    return Travelled(row, events, logs, sum(spent))


def problem_here(data: bytes, versions: str, budget: float | None) -> str:
    """Return why cells of this work cannot run in this process: what it lacks; else nothing.

    That is: other versions, a missing tool, key or model, or an MCP server that is only named: workers have no configuration.
    """
    if versions != HERE:
        return f"it has {HERE}, and the kernel {versions}"
    try:
        work = _work(data)
        for variant in work.variants:
            given = variant.work
            _servers().resolved(given.toolbox.servers if isinstance(given, Agent) else servers_of_workflow(given))
        return "; ".join(check_models(work.variants, [one for one in work.models if one is not None], budget))
    except AgentnbError as error:
        return str(error)
    except Exception as error:  # whatever it cannot import
        return f"it cannot read the experiment: {type(error).__name__}: {error}"


async def _until_stopped(running: Coroutine[Any, Any, CellRun], topic: str) -> CellRun:
    """Return what a cell comes to; in a Dask worker cancel it when the experiment is stopped."""
    task = asyncio.ensure_future(running)
    if topic:
        from distributed import Event, get_client

        stopped = Event(topic, client=get_client())  # type: ignore[no-untyped-call]  # it has no types
        while not (await asyncio.wait([task], timeout=LOOK))[0]:
            if await asyncio.to_thread(stopped.is_set):
                task.cancel()
                break
    return await task


@lru_cache(maxsize=1)
def _work(data: bytes) -> Work:
    work: Work = pickle.loads(data)
    return work


@lru_cache(maxsize=1)
def _servers() -> Servers:
    """Return the MCP servers of this process, which cells share."""
    return Servers()


def _teller(topic: str, name: str) -> Callable[[str, float], None]:
    """Return what tells the kernel, which has it when this returns: what the worker only queued would die with it."""
    if not topic:
        return lambda kind, dollars: None
    from distributed import get_client

    client = get_client()
    return lambda kind, dollars: client.log_event(topic, {"attempt": name, "kind": kind, "dollars": dollars})
