"""A server that runs may use: started when it is first needed, and again if it was found dead."""

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
from agentnb.tools.mcp.connections.catalogue import (
    REFUSED,
    SESSION_TERMINATED,
    Catalogue,
    ServerFacts,
    catalogue_of,
    facts_of,
    tools_of,
)
from agentnb.tools.mcp.connections.connection import Connection
from agentnb.tools.mcp.connections.lenient_results import SetAside
from agentnb.tools.mcp.connections.login import Login
from agentnb.tools.mcp.connections.refusal import Refusal
from agentnb.tools.mcp.server import MCPServer

if TYPE_CHECKING:
    from mcp import Client
    from mcp import types as t

T = TypeVar("T")
State: TypeAlias = Literal["configured", "starting", "ready", "dead", "failed", "stopped"]
Asker: TypeAlias = Callable[[Any], Awaitable[Any]]
_asker: ContextVar[Asker | None] = ContextVar("asker", default=None)
"""Answers the questions of the call that is being made."""
MAX_REASON_CHARACTERS = 2_000
"""Characters of an error, which may be the server's own words."""


class Book(Protocol):
    """The book of servers that this one is in."""

    async def run(self, make: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Run a coroutine on the event loop of the connections."""

    def filled(self, server: MCPServer) -> MCPServer:
        """Return the server with the values of its variables."""


class LiveServer:
    """A server as configured, its connection, and what it has listed. Public methods may be called on any event loop."""

    def __init__(self, server: MCPServer, book: Book, work_dir: Path) -> None:
        """``work_dir``: the folder of the first run."""
        self.server = server
        self._state: State = "configured"
        self.problem = ""
        """Why it could not be started."""
        self.version = 0
        """Counts the changes of its tools."""
        self.facts: ServerFacts | None = None
        """The facts of its last connection; None if none began."""
        self.tools: tuple[t.Tool, ...] = ()
        """Its tools as last listed."""
        self.set_aside: SetAside = {}
        """The tools of its last list that cannot be used, with the reason of each."""
        self.catalogue = Catalogue()
        """The first page of its resources and prompts, as last listed."""
        self._askers: list[Asker] = []
        """Answer its questions of which it does not say to which call they belong: the newest call's does, the last here."""
        self.work_dir = work_dir
        self.is_retired = False
        """Whether it is never started again: nothing would end it."""
        self._book = book
        self._connection: Connection | None = None
        self._starting = asyncio.Lock()
        self._logging_in = asyncio.Lock()
        self._logins = 0

    @property
    def state(self) -> State:
        """Its state; ``dead`` after it ended by itself."""
        is_gone = self._connection is None or not self._connection.is_open
        return "dead" if self._state == "ready" and is_gone else self._state

    @property
    def stderr(self) -> tuple[str, ...]:
        """The last lines of its standard error."""
        return () if self._connection is None else self._connection.stderr

    async def start(self) -> None:
        """Connect, unless it is connected. Raises `ServerFailed`, with the end of its standard error."""
        await self._there(self._opened)

    async def relist(self) -> None:
        """Ask for its tools again. Raises `ServerFailed`."""

        async def list_again() -> None:
            connection = await self._opened()
            try:
                await self._list(connection)
            except Exception as error:
                raise self._failed(error) from error

        await self._there(list_again)

    async def request(self, make: Callable[[Client], Awaitable[T]], asker: Asker | None = None) -> T:
        """Make a request; a server that is found dead is started again first.

        ``asker``: from the parameters of a question that the server sends meanwhile to the protocol's result.
        Raises `ServerFailed`, the client's errors, and `ConnectionError` if the server ended meanwhile.
        """

        async def send(*, is_again: bool = False) -> T:
            connection = await self._opened()
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
                    raise ConnectionResetError("the server ended") from error  # whatever the client says of that
            finally:
                _asker.reset(token)
                if asker is not None:
                    self._askers.remove(asker)
            return await send(is_again=True)  # the server has refused the request unread

        return await self._there(send)

    async def log_in(self, scope: str, ask: Callable[[str, str], Awaitable[None]]) -> None:
        """Have the person log in; calls that were refused meanwhile share the login.

        ``ask`` brings a message and an address to the person. Raises what it raises, and `ServerFailed`.
        """
        await self._there(partial(self._log_in, scope, ask))

    async def _there(self, make: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Run a coroutine on the event loop of the connections, which has ended with a server that is retired."""
        self.check_retired()
        return await self._book.run(make)

    def check_retired(self) -> None:
        """Raise `ServerFailed` if it is never started again."""
        if self.is_retired:
            raise ServerFailed(f"The MCP server {self.server.name} was replaced, or the run that started it is over")

    # On the event loop of the connections

    async def _opened(self) -> Connection:
        async with self._starting:
            if self._connection is not None and self._connection.is_open:
                return self._connection
            self.check_retired()
            await self.stopped()
            self._state, self.problem = "starting", ""
            self.facts, self.tools, self.set_aside, self.catalogue = None, (), {}, Catalogue()
            arguments = self.work_dir, self.set_aside, self._elicit, self._note_change
            try:
                connection = self._connection = Connection(self._book.filled(self.server), *arguments)
                await self._list(connection)
            except BaseException as error:
                await self.stopped()
                self._state, failed = "failed", self._failed(error)
                if isinstance(error, Exception) and not isinstance(error, AgentnbError):
                    raise failed from error
                raise
            self._state = "ready"
            self._note_change()
            return connection

    async def _list(self, connection: Connection) -> None:
        """Ask for the tools, and whether there are resources and prompts."""
        async with asyncio.timeout(max(START_SECONDS, self.server.timeout or 0)):
            client = await connection.ready()
            self.facts = self.facts or facts_of(client)
            self.tools, self.catalogue = await asyncio.gather(tools_of(client), catalogue_of(client, most_pages=1))

    async def _log_in(self, scope: str, ask: Callable[[str, str], Awaitable[None]]) -> None:
        before = self._logins
        async with self._logging_in:
            if self._logins == before:
                await self._bring(Login(self._book.filled(self.server), scope), ask)
                self._logins += 1
        if self._connection is not None:
            await self._connection.take_login()

    async def _bring(self, login: Login, ask: Callable[[str, str], Awaitable[None]]) -> None:
        """Bring a login to the person until it has its answer, or they have closed the question."""

        async def show() -> None:
            address = await asyncio.wrap_future(login.address)
            await ask(f"Log in to {self.server.target}: it refuses this call until you do{login.note}", address.opened)
            login.give_up()  # where the person is done, and no answer has come here

        tasks = running, shown = asyncio.ensure_future(login.run()), asyncio.ensure_future(show())
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            if running not in done:
                await shown
            await running
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)  # one may have failed beside the other

    async def stopped(self) -> None:
        """End the connection; the next use begins another. On the event loop of the connections."""
        if self._connection is not None:
            await self._connection.close()
        self._state = "stopped"

    async def _elicit(self, context: Any, params: Any) -> Any:
        from mcp.types import ElicitResult

        asker = _asker.get() or next(reversed(self._askers), None)
        if asker not in self._askers:  # no call is running that a person waits for
            return ElicitResult(action="cancel")
        return await asker(params)

    def _note_change(self) -> None:
        self.version += 1

    def refusal(self, error: BaseException) -> Refusal | None:
        """Return how the server refused a request that failed; None if it failed otherwise."""
        is_refused = any(getattr(cause, "code", None) == REFUSED for cause in leaves(error))
        return self._connection.refusal if is_refused and self._connection is not None else None

    def why(self, error: BaseException) -> str:
        """Return why a request failed: that the server gave no leave, or else the error."""
        refusal = self.refusal(error)
        return reason(error) if refusal is None else refusal.text

    def _failed(self, error: BaseException) -> ServerFailed:
        """Note why the server could not be used, and return that as an error."""
        self.problem = self.why(error)
        done = "reached" if self.server.is_remote else "started"
        message = f"The MCP server {self.server.name} ({self.server.target}) could not be {done}: {self.problem}"
        lines = "\n".join(self.stderr)
        return ServerFailed(f"{message}\nIt wrote:\n{lines}" if lines else message, self._advice(error))

    def _advice(self, error: BaseException) -> Advised:
        if (refusal := self.refusal(error)) is not None:
            return refusal.advice(self.server.name)
        if self.server.is_remote:
            return Plain("Is it running, and is the address right?")
        if any(is_no_program(cause) for cause in leaves(error)):
            return Plain("Install it, or give the whole path of the program")
        return Plain("Start it in a terminal to see why")


def reason(error: BaseException) -> str:
    """Return why a request failed, bounded and without control characters: the client wraps errors of its tasks in groups."""
    causes = list(leaves(error))
    first = causes[0] if causes else error
    if is_no_program(first):
        return "there is no such program"
    if isinstance(first, TimeoutError):
        return "it did not answer in time"
    return visible(str(first)[:MAX_REASON_CHARACTERS]).strip() or type(first).__name__


def is_no_program(error: BaseException) -> bool:
    """Return whether a program was not found; for one without a path, PATH may also have folders that may not be searched."""
    name = error.filename if isinstance(error, OSError) else None
    is_hidden = isinstance(error, PermissionError) and name == Path(name or "/").name and shutil.which(name, os.F_OK) is None
    return isinstance(error, FileNotFoundError) or is_hidden


def leaves(error: BaseException) -> Iterable[BaseException]:
    """Yield the errors in a group, however nested."""
    if isinstance(error, BaseExceptionGroup):
        for inner in error.exceptions:
            yield from leaves(inner)
    else:
        yield error
