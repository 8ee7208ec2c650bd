"""A server for runs: started on first use, and restarted if it died."""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from contextvars import ContextVar
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias, TypeVar

from agentnb.advice import Advised, Plain
from agentnb.core.messages import visible
from agentnb.errors import AgentnbError, ServerFailed
from agentnb.tools.defaults import START_SECONDS
from agentnb.tools.mcp.connections.lenient_results import SetAside
from agentnb.tools.mcp.connections.oauth_login import Login
from agentnb.tools.mcp.connections.refusal import Refusal
from agentnb.tools.mcp.connections.server_catalogue import (
    REFUSED,
    SESSION_TERMINATED,
    Catalogue,
    ServerFacts,
    catalogue_of,
    facts_of,
    tools_of,
)
from agentnb.tools.mcp.connections.server_connection import Connection
from agentnb.tools.mcp.mcp_server import MCPServer

if TYPE_CHECKING:
    from mcp import Client
    from mcp import types as t

T = TypeVar("T")
State: TypeAlias = Literal["configured", "starting", "ready", "dead", "failed", "stopped"]
Asker: TypeAlias = Callable[[Any], Awaitable[Any]]
_asker: ContextVar[Asker | None] = ContextVar("asker", default=None)
"""The asker that answers questions during the current call."""
MAX_REASON_CHARACTERS = 2_000
"""Maximum number of characters in an error, possibly the server's own text."""


class Book(Protocol):
    """The registry that owns a server."""

    async def run(self, make: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Run a coroutine on the event loop of the connections."""

    def expand(self, server: MCPServer) -> MCPServer:
        """Return the server with its variables filled in."""


class LiveServer:
    """A configured server with its connection and lists. Public methods may be called on any event loop."""

    def __init__(self, server: MCPServer, book: Book, work_dir: Path) -> None:
        """``work_dir``: folder of the first run."""
        self.server = server
        self._state: State = "configured"
        self.problem = ""
        """Reason for a failed start."""
        self.version = 0
        """Counter of tool changes."""
        self.facts: ServerFacts | None = None
        """Facts about the most recent connection, or None before the first."""
        self.tools: tuple[t.Tool, ...] = ()
        """Tools in the most recent list."""
        self.set_aside: SetAside = {}
        """Unusable tools in the most recent list, with the reasons."""
        self.catalogue = Catalogue()
        """First page of resources and prompts in the most recent list."""
        self._askers: list[Asker] = []
        """Askers of the running calls. The last of them answers questions that do not name a call."""
        self.work_dir = work_dir
        self.is_retired = False
        """True if the server must not start again, because nothing would ever stop it."""
        self._book = book
        self._connection: Connection | None = None
        self._starting = asyncio.Lock()
        self._logging_in = asyncio.Lock()
        self._logins = 0

    @property
    def state(self) -> State:
        """State of the server; ``dead`` if it ended on its own."""
        is_gone = self._connection is None or not self._connection.is_open
        return "dead" if self._state == "ready" and is_gone else self._state

    @property
    def stderr(self) -> tuple[str, ...]:
        """Last lines of the server's standard error."""
        return () if self._connection is None else self._connection.stderr

    async def start(self) -> None:
        """Connect, unless connected. Raises `ServerFailed` with the end of the server's standard error."""
        await self._on_loop(self._open)

    async def relist(self) -> None:
        """List the tools again. Raises `ServerFailed`."""

        async def list_again() -> None:
            connection = await self._open()
            try:
                await self._list(connection)
            except Exception as error:
                raise self._start_failure(error) from error

        await self._on_loop(list_again)

    async def request(self, make: Callable[[Client], Awaitable[T]], asker: Asker | None = None) -> T:
        """Send a request, restarting a dead server first.

        ``asker``: answers questions that the server sends meanwhile, mapping their parameters to the protocol's result.
        Raises `ServerFailed`, the client's errors, and `ConnectionError` if the server ends before it has answered.
        """

        async def send(*, is_again: bool = False) -> T:
            connection = await self._open()
            client = await connection.ready()
            token = _asker.set(asker)
            if asker is not None:
                self._askers.append(asker)
            try:
                return await make(client)
            except Exception as error:
                if connection.is_open or isinstance(error, AgentnbError):
                    raise
                if is_again or not (connection.is_forgotten and getattr(error, "code", None) == SESSION_TERMINATED):
                    raise ConnectionResetError("the server exited") from error  # instead of the client's error
            finally:
                _asker.reset(token)
                if asker is not None:
                    self._askers.remove(asker)
            return await send(is_again=True)  # the server rejected the request unread

        return await self._on_loop(send)

    async def log_in(self, scope: str, ask: Callable[[str, str], Awaitable[None]]) -> None:
        """Have the person log in. Calls that are refused meanwhile share the login.

        ``ask`` shows a message and an address to the person. Raises the errors of ``ask``, and `ServerFailed`.
        """
        await self._on_loop(partial(self._log_in, scope, ask))

    async def _on_loop(self, make: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Run a coroutine on the event loop of the connections. A retired server no longer has one."""
        self.check_retired()
        return await self._book.run(make)

    def check_retired(self) -> None:
        """Raise `ServerFailed` if the server must not start again."""
        if self.is_retired:
            raise ServerFailed(f"The MCP server {self.server.name} was replaced, or the run that started it has ended")

    # On the event loop of the connections

    async def _open(self) -> Connection:
        async with self._starting:
            if self._connection is not None and self._connection.is_open:
                return self._connection
            self.check_retired()
            await self.stopped()
            self._state, self.problem = "starting", ""
            self.facts, self.tools, self.set_aside, self.catalogue = None, (), {}, Catalogue()
            arguments = self.work_dir, self.set_aside, self._elicit, self._note_change
            try:
                connection = self._connection = Connection(self._book.expand(self.server), *arguments)
                await self._list(connection)
            except BaseException as error:
                await self.stopped()
                self._state, failed = "failed", self._start_failure(error)
                if isinstance(error, Exception) and not isinstance(error, AgentnbError):
                    raise failed from error
                raise
            self._state = "ready"
            self._note_change()
            return connection

    async def _list(self, connection: Connection) -> None:
        """List the tools, and check for resources and prompts."""
        async with asyncio.timeout(max(START_SECONDS, self.server.timeout or 0)):
            client = await connection.ready()
            self.facts = self.facts or facts_of(client)
            self.tools, self.catalogue = await asyncio.gather(tools_of(client), catalogue_of(client, most_pages=1))

    async def _log_in(self, scope: str, ask: Callable[[str, str], Awaitable[None]]) -> None:
        before = self._logins
        async with self._logging_in:
            if self._logins == before:
                await self._show_login(Login(self._book.expand(self.server), scope), ask)
                self._logins += 1
        if self._connection is not None:
            await self._connection.take_login()

    async def _show_login(self, login: Login, ask: Callable[[str, str], Awaitable[None]]) -> None:
        """Show a login to the person until it completes or they close the question."""

        async def show() -> None:
            address = await asyncio.wrap_future(login.address)
            await ask(f"Log in to {self.server.target}: it refuses this call until you log in{login.note}", address.opened)
            login.give_up()  # the person is done, but no answer has arrived

        tasks = running, shown = asyncio.ensure_future(login.run()), asyncio.ensure_future(show())
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            if running not in done:
                await shown
            await running
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)  # both may have failed

    async def stopped(self) -> None:
        """Close the connection; the next use opens another. Call this on the event loop of the connections."""
        if self._connection is not None:
            await self._connection.close()
        self._state = "stopped"

    async def _elicit(self, context: Any, params: Any) -> Any:
        from mcp.types import ElicitResult

        asker = _asker.get() or next(reversed(self._askers), None)
        if asker not in self._askers:  # no call with a person is running
            return ElicitResult(action="cancel")
        return await asker(params)

    def _note_change(self) -> None:
        self.version += 1

    def refusal(self, error: BaseException) -> Refusal | None:
        """Return the server's refusal if that is why a request failed, or None for other failures."""
        is_refused = any(getattr(cause, "code", None) == REFUSED for cause in leaves(error))
        return self._connection.refusal if is_refused and self._connection is not None else None

    def why(self, error: BaseException) -> str:
        """Return the reason for a failed request: the server's refusal, or the error."""
        refusal = self.refusal(error)
        return reason(error) if refusal is None else refusal.text

    def _start_failure(self, error: BaseException) -> ServerFailed:
        """Record the reason for a failed start, and return it as an error."""
        self.problem = self.why(error)
        done = "reached" if self.server.is_remote else "started"
        message = f"The MCP server {self.server.name} ({self.server.target}) could not be {done}: {self.problem}"
        lines = "\n".join(self.stderr)
        return ServerFailed(f"{message}\nIts output:\n{lines}" if lines else message, self._advice(error))

    def _advice(self, error: BaseException) -> Advised:
        if (refusal := self.refusal(error)) is not None:
            return refusal.advice(self.server.name)
        if self.server.is_remote:
            return Plain("Check that it is running and that the address is right")
        if any(is_no_program(cause) for cause in leaves(error)):
            return Plain("Install it, or use the full path of the program")
        return Plain("Start it in a terminal to see why")


def reason(error: BaseException) -> str:
    """Return the reason why a request failed, truncated and printable. The client wraps task errors in groups."""
    causes = list(leaves(error))
    first = causes[0] if causes else error
    if is_no_program(first):
        return "the program was not found"
    if isinstance(first, TimeoutError):
        return "it did not answer in time"
    return visible(str(first)[:MAX_REASON_CHARACTERS]).strip() or type(first).__name__


def is_no_program(error: BaseException) -> bool:
    """True if a program was not found, possibly because folders in PATH are inaccessible."""
    name = error.filename if isinstance(error, OSError) else None
    is_hidden = isinstance(error, PermissionError) and name == Path(name or "/").name and shutil.which(name, os.F_OK) is None
    return isinstance(error, FileNotFoundError) or is_hidden


def leaves(error: BaseException) -> Iterable[BaseException]:
    """Yield the leaf errors of nested groups."""
    if isinstance(error, BaseExceptionGroup):
        for inner in error.exceptions:
            yield from leaves(inner)
    else:
        yield error
