"""Worker process of an experiment: receives cells through a pipe, runs them on one event loop, and returns their rows."""

from __future__ import annotations

import asyncio
import os
import pickle
import signal
import threading
from collections.abc import Mapping, Sequence
from multiprocessing.connection import Connection
from typing import Any, Literal, NamedTuple, TypeAlias

from agentnb.core.log.events import AnyEvent
from agentnb.errors import AgentnbError, StoreError
from agentnb.experiments.results.rows import Row
from agentnb.experiments.running.cell_work import Job, Work, run_cell
from agentnb.experiments.running.rate import Refusal, SharedLimits
from agentnb.experiments.running.spending import CellAccount
from agentnb.runtime.servers.servers import Servers
from agentnb.settings import keep_key
from agentnb.store.store import Store
from agentnb.tools.mcp.mcp_server import MCPServer


class Setup(NamedTuple):
    """Settings of a worker other than its work: the folder of the logs, and the number of workers."""

    folder: str | None
    processes: int


class Secrets(NamedTuple):
    """Data that a worker receives only through the pipe: keys by name, and the configured MCP servers, which may hold keys."""

    keys: Mapping[str, str]
    servers: Sequence[MCPServer]


class Finished(NamedTuple):
    """The result of a cell. ``events``: the events of its run, unless a store keeps them."""

    row: Row
    events: list[AnyEvent] | None


Sent: TypeAlias = (
    tuple[Literal["finished"], Finished]
    | tuple[Literal["failed"], tuple[str, StoreError]]
    | tuple[Literal["paid"], tuple[str, float]]
    | tuple[Literal["refused"], Refusal]
)
"""Messages from a worker: a finished cell, the error of a cell that has no log, dollars spent, or a refusal for too many
requests.
"""


def serve(pipe: Connection) -> None:
    """Run cells until the pipe is closed. First receives the keys and MCP servers (only through the pipe), then the work.

    If the parent process dies, this process exits at once; its logs then count as interrupted and can be recovered.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # an interrupt reaches all processes: the parent handles it
    try:
        keys, servers = Secrets(*pickle.loads(pipe.recv_bytes()))
        for name, text in keys.items():
            keep_key(name, text)
        setup, work = pickle.loads(pipe.recv_bytes())
    except EOFError:
        return
    except Exception as error:
        pipe.send(("broken", str(error) if isinstance(error, AgentnbError) else f"{type(error).__name__}: {error}"))
        return
    mcp_servers = Servers()
    for server in servers:
        mcp_servers.configuration.add(server)
    asyncio.run(_Worker(pipe, setup, work, mcp_servers).serve())
    mcp_servers.close()
    os._exit(0)  # threads of a tool must not keep the process alive


class _Worker:
    def __init__(self, pipe: Connection, setup: Setup, work: Work, servers: Servers) -> None:
        """``servers``: the MCP servers, whose connections last as long as the process."""
        self._pipe = pipe
        self._servers = servers
        self._work = work
        self._store = None if setup.folder is None else Store(setup.folder)
        self._sending = threading.Lock()
        self._rate = SharedLimits(setup.processes, lambda refusal: self._send(("refused", refusal)))
        self._tasks: set[asyncio.Task[None]] = set()
        self._ended = asyncio.Event()

    async def serve(self) -> None:
        loop = asyncio.get_running_loop()
        threading.Thread(target=self._read, args=(loop,), daemon=True).start()
        await self._ended.wait()
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=1.0)

    def _read(self, loop: asyncio.AbstractEventLoop) -> None:
        while True:
            try:
                kind, payload = self._pipe.recv()
            except (EOFError, OSError):
                os._exit(1)
            loop.call_soon_threadsafe(self._take, kind, payload)
            if kind == "end":
                return

    def _take(self, kind: str, payload: Any) -> None:
        if kind == "job":
            task = asyncio.ensure_future(self._run(payload))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        elif kind == "refused":
            self._rate.take(payload)
        elif kind == "end":
            self._ended.set()

    async def _run(self, job: Job) -> None:
        try:
            row, run = await run_cell(
                self._work,
                job,
                store=self._store,
                spending=CellAccount(lambda dollars: self._send(("paid", (job.cell.key, dollars)))),
                limits=self._rate.limits,
                servers=self._servers,
            )
        except StoreError as error:
            self._send(("failed", (job.cell.key, error)))
            return
        events = [*run.events] if run is not None and self._store is None else None
        self._send(("finished", Finished(row, events)))

    def _send(self, message: Sent) -> None:
        with self._sending:
            self._pipe.send(message)
