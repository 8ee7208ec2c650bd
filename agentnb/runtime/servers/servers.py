"""MCP servers of a session, or of one run: their configuration and their connections."""

from __future__ import annotations

import asyncio
import atexit
import threading
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar
from weakref import WeakSet

from agentnb.core.forks import after_fork
from agentnb.errors import AgentnbError, ServerFailed, SettingsError
from agentnb.runtime.questions.model_code import check_person
from agentnb.runtime.threads import LoopThread
from agentnb.settings import Key, redact_values
from agentnb.tools.mcp.connections.live_server import LiveServer
from agentnb.tools.mcp.connections.oauth_login import Login
from agentnb.tools.mcp.connections.refusal import has_own_login
from agentnb.tools.mcp.connections.stored_logins import delete_login
from agentnb.tools.mcp.expansion import expand_variables, secrets, values
from agentnb.tools.mcp.mcp_server import FILE, MCPServer, ServerTools
from agentnb.tools.mcp.server_configuration import Configuration

if TYPE_CHECKING:
    from mcp import Client

T = TypeVar("T")
CONFIGURING = "Configuring MCP servers"
IN_CODE = "in code"
CLOSE_SECONDS = 10.0
"""Maximum seconds for servers to end."""


class ListedServer(NamedTuple):
    """A configured server, or a connection to one."""

    live: LiveServer
    source: str
    """Source of its configuration: ``added``, a file, the environment variable, or `IN_CODE`."""


class Servers:
    """Servers, each with a connection that lives until `close`. Thread-safe."""

    def __init__(self) -> None:
        self.configuration = Configuration(self._changing)
        self._used: list[LiveServer] = []
        self._lock = threading.Lock()
        self._thread: LoopThread | None = None
        _all.add(self)

    def resolve(self, items: Iterable[ServerTools]) -> tuple[ServerTools, ...]:
        """Return the items with their servers, without duplicates; servers given only by name are looked up in the
        configuration.

        Raises `SettingsError` for a server that is not configured.
        """
        resolved = [item if item.server else replace(item, server=self.configuration.server(item.name)) for item in items]
        return tuple(dict.fromkeys(resolved))

    @contextmanager
    def _changing(self) -> Iterator[None]:
        """Guard a change of the configuration, and end the connections of changed servers, including those in use. Blocks."""
        check_person(CONFIGURING, is_lasting=True)
        before = self.configuration.known
        yield
        after = self.configuration.known
        for server in after.values():
            keep_secret(server)
        gone = [server for name, server in before.items() if after.get(name) != server]
        with self._lock:
            chosen = [live for live in self._used if live.server in gone]
            self._used = [live for live in self._used if live not in chosen]
        self._end(chosen, for_good=True)

    def live(self, item: ServerTools, work_dir: Path) -> LiveServer:
        """Return the server of an item; it is started on first use. Raises `SettingsError` if it is not configured.

        Runs in different folders have separate connections, since a program starts in one folder.
        """
        server = item.server or self.configuration.server(item.name)
        with self._lock:
            live = next((used for used in self._used if used.server == server and used.work_dir == work_dir), None)
            if live is None:
                live = LiveServer(server, self, work_dir)
                self._used.append(live)
            return live

    @property
    def used(self) -> tuple[LiveServer, ...]:
        """Servers that runs have named so far."""
        return tuple(self._used)

    def list_rows(self, work_dir: Path) -> list[ListedServer]:
        """Return a row for each connection, and one for each configured server without a connection, as it would start in this
        folder.

        Servers configured in an unreadable environment variable are left out.
        """
        configured, used = self.configuration.known, self.used
        rows = []
        for name, server in sorted(configured.items()):
            lives = [live for live in used if live.server == server] or [LiveServer(server, self, work_dir)]
            rows += [ListedServer(live, self.configuration.source(name)) for live in lives]
        return rows + [ListedServer(live, IN_CODE) for live in used if live.server not in configured.values()]

    async def run(self, make: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Run a coroutine on the connections' event loop, from any loop. Cancelling the caller cancels the coroutine."""
        return await self._loop().run(make)

    def expand(self, server: MCPServer) -> MCPServer:
        """Return the server with its variables expanded; their values are redacted in logs. Raises `SettingsError` for
        an unset one, or for an invalid address.
        """
        texts = values(server)
        redact_values(texts)
        for name, text in texts.items():
            if name.startswith(FILE) and text:
                Key(name, text, f"the MCP server {server.name}")
        keep_secret(server)
        filled = expand_variables(server, texts)
        keep_secret(filled)
        return filled

    def ask(self, live: LiveServer, make: Callable[[Client], Awaitable[T]]) -> T:
        """Send a request to a server on behalf of the person, within its time limit; an interrupt ends it. Blocks.

        The server is started first if it is not running. Raises `ServerFailed`, or `SettingsError` for an unset
        variable.
        """
        check_person("Using an MCP server directly")
        live.check_retired()
        tasks: list[asyncio.Task[Any] | None] = []

        async def within_limit(client: Client) -> T:
            async with asyncio.timeout(live.server.timeout):
                return await make(client)

        async def send() -> T:
            tasks.append(asyncio.current_task())
            return await live.request(within_limit)

        try:
            return self._loop().submit(send).result()
        except AgentnbError:
            raise
        except Exception as error:
            raise ServerFailed(f"The MCP server {live.server.name} failed: {live.why(error)}") from error
        except BaseException:
            for task in filter(None, tasks):
                task.get_loop().call_soon_threadsafe(task.cancel)
            raise

    def begin_login(self, live: LiveServer, *given: Any) -> tuple[Login, Future[bool]]:
        """Begin to log in to a server, and return the login and a future that says whether it could be stored.

        ``given``: further arguments of `Login`. Raises `SettingsError` for a server that does not use a login.
        """
        live.check_retired()
        server = self.expand(live.server)
        if not server.is_remote or has_own_login(server):
            why = "uses its Authorization header instead" if server.is_remote else "is a program on this machine"
            raise SettingsError(f"Cannot log in to the MCP server {server.name}: it {why}")
        login = Login(server, *given)
        return login, self._loop().submit(login.run)

    def forget_login(self, live: LiveServer) -> bool:
        """Delete the stored login for a server and end its connections; return whether there was one. Raises
        `SettingsError`.
        """
        was_there = delete_login(self.expand(live.server).command_or_url)
        self.stop(live.server.name)
        return was_there

    def _loop(self) -> LoopThread:
        with self._lock:
            self._thread = self._thread or LoopThread()
            return self._thread

    def stop(self, name: str) -> bool:
        """End the connections of a server; return whether any was running. Blocks."""
        check_person("Stopping an MCP server")
        chosen = [live for live in self._used if live.server.name == name]
        was_running = any(live.state in ("starting", "ready") for live in chosen)
        self._end(chosen)
        return was_running

    def close(self) -> None:
        """End all connections. Blocks, for a few seconds at most."""
        with self._lock:
            chosen, self._used = self._used, []
            thread, self._thread = self._thread, None
        self._end(chosen, thread, for_good=True)
        if thread is not None:
            thread.close()

    def _end(self, chosen: list[LiveServer], thread: LoopThread | None = None, *, for_good: bool = False) -> None:
        thread = thread or self._thread
        for live in chosen:
            live.is_retired = live.is_retired or for_good
        if not chosen or thread is None:
            return

        async def end() -> None:
            async with asyncio.timeout(CLOSE_SECONDS):
                await asyncio.gather(*[live.stopped() for live in chosen], return_exceptions=True)

        thread.submit(end).exception()

    def leave_to_parent(self) -> None:
        """Drop the connections: this process was forked, and they belong to the parent process."""
        self._used, self._thread, self._lock = [], None, threading.Lock()


def keep_secret(server: MCPServer) -> None:
    """Redact the secrets in a server's settings from now on."""
    values = {**server.env, **server.headers}
    redact_values(values)
    redact_values({name: value.rpartition(" ")[2] for name, value in values.items()})  # without Bearer
    for text in secrets(server):
        Key(f"a setting of the MCP server {server.name}", text, "its settings")


_all: WeakSet[Servers] = WeakSet()


def _close_all() -> None:
    for servers in tuple(_all):
        servers.close()


def _leave_to_parent() -> None:
    for servers in tuple(_all):
        servers.leave_to_parent()


atexit.register(_close_all)
after_fork(_leave_to_parent)
