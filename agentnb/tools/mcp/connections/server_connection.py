"""Connection to an MCP server, opened, owned and closed by one task, as the client requires."""

from __future__ import annotations

import asyncio
import logging
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agentnb.tools.defaults import CONNECT_SECONDS
from agentnb.tools.mcp.connections.lenient_results import (
    MAX_LINE_BYTES,
    SetAside,
    mend_response,
    read_leniently,
    readable_message,
    replace_body,
)
from agentnb.tools.mcp.connections.oauth_login import SILENT, LoggedIn
from agentnb.tools.mcp.connections.refusal import (
    NOT_ALLOWED,
    SESSION_UNKNOWN,
    Refusal,
    has_own_login,
    is_session_unknown,
    refusal_of,
)
from agentnb.tools.mcp.connections.server_catalogue import REFUSED
from agentnb.tools.mcp.connections.stderr_tail import StderrTail
from agentnb.tools.mcp.connections.stored_logins import load_login
from agentnb.tools.mcp.mcp_server import MCPServer

if TYPE_CHECKING:
    from mcp import Client
    from mcp import types as t
    from mcp.client.session import ElicitationFnT

CLOSE_SECONDS = 9.0
"""Seconds to wait for a server to end: a program is killed earlier, and a remote server may never confirm."""
NO_STREAMABLE_HTTP = (400, 404, 405)
"""HTTP statuses with which servers of the older SSE transport refuse a request."""
NO_SSE = "the older SSE transport, which the installed version of mcp does not support"
REFUSED_BODY = f'{{"jsonrpc":"2.0","id":null,"error":{{"code":{REFUSED},"message":""}}}}'.encode()
"""Response body that marks a call as refused: unlike other failed calls, it can be repeated."""
FORM = "application/x-www-form-urlencoded"
SSE_SECONDS = 86_400.0
"""Maximum seconds without data on an SSE stream."""


class Connection:
    """Connection to a server. Used on a single event loop."""

    def __init__(
        self, server: MCPServer, work_dir: Path, set_aside: SetAside, elicit: ElicitationFnT, changed: Callable[[], None]
    ) -> None:
        """``server``: with its variables filled in. ``work_dir``: default folder of a started program.

        ``set_aside`` receives unusable tools; ``changed`` is called when the server announces changed tools.
        """
        self.server = server
        self.is_open = False
        """True while calls are possible: from readiness until the server dies or the connection is closed."""
        self.is_forgotten = False
        """True if the server no longer knows this session, as after a restart, and ignores its requests."""
        self.refusal: Refusal | None = None
        """The last response that refused access."""
        self._login: LoggedIn | None = None
        self._status = 0
        self._work_dir = work_dir
        self._set_aside = set_aside
        self._elicit = elicit
        self._changed = changed
        self._tail: StderrTail | None = None
        self._over = asyncio.Event()
        self._is_cancelled = False
        self._ready: asyncio.Future[Client] = asyncio.get_running_loop().create_future()
        self._task = asyncio.create_task(self._run_connection())

    async def ready(self) -> Client:
        """Return the client once the server has answered. Raises the error that prevented it."""
        return await asyncio.shield(self._ready)

    @property
    def stderr(self) -> tuple[str, ...]:
        """Last lines of the server's standard error."""
        return () if self._tail is None else self._tail.lines

    async def close(self) -> None:
        """Close the connection, and end the program if agentnb started it."""
        self._over.set()
        if not self._ready.done() and not self._is_cancelled:
            self._is_cancelled = True  # only once: a second time would cut short the program's shutdown
            self._task.cancel()
        await asyncio.wait([self._task], timeout=CLOSE_SECONDS)
        if not self._task.done():
            self._task.cancel()
            await asyncio.wait([self._task], timeout=CLOSE_SECONDS)

    async def _run_connection(self) -> None:
        try:
            async with AsyncExitStack() as stack:
                client = await self._connect(stack)
                watching = asyncio.create_task(self._watch(client))
                stack.callback(watching.cancel)
                self._ready.set_result(client)
                self.is_open = True
                await self._over.wait()
        except BaseException as error:
            if not self._ready.done():
                self._ready.set_exception(error if isinstance(error, Exception) else ConnectionError("It was stopped"))
                self._ready.exception()  # mark as retrieved: possibly nothing awaits it
            if isinstance(error, asyncio.CancelledError) and not self._over.is_set():
                raise
        finally:
            self.is_open = False
            if self._tail is not None:
                self._tail.close()

    async def _connect(self, stack: AsyncExitStack) -> Client:
        logging.getLogger("mcp").addHandler(SILENT)  # else it reports lines that are not protocol messages
        first = self._over_http() if self.server.is_remote else self._over_stdio()
        try:
            client = await stack.enter_async_context(self._client(first))
        except Exception as error:
            if self._status not in NO_STREAMABLE_HTTP:
                raise
            try:
                client = await stack.enter_async_context(self._client(self._over_sse()))
            except ImportError:
                raise ConnectionError(f"it returns {self._status}, like servers that use {NO_SSE}") from error
            except Exception:
                raise error from None
        # The client's own check loads a slow validator (a second in JupyterLab); `outcome_of` has a faster one.
        client.session.validate_tool_result = _skip_validation  # type: ignore[method-assign]
        return client

    def _client(self, transport: Any) -> Client:
        from mcp import Client
        from mcp.types import ListRootsResult, Root
        from pydantic import FileUrl

        folders = [Path(root).resolve() for root in self.server.roots]
        roots = ListRootsResult(roots=[Root(uri=FileUrl(folder.as_uri()), name=folder.name) for folder in folders])

        async def list_roots(context: Any) -> ListRootsResult:
            return roots

        client = Client(
            transport,
            mode="auto",
            cache=None,
            elicitation_callback=self._elicit,
            list_roots_callback=list_roots if folders else None,
            message_handler=self._on_message,
            input_required_max_rounds=sys.maxsize,  # the time limit of the call ends them
        )
        read_leniently(client, self._set_aside)
        return client

    @asynccontextmanager
    async def _over_stdio(self) -> AsyncIterator[tuple[Any, Any]]:
        from mcp import StdioServerParameters
        from mcp.client.stdio import stdio_client

        server, tail = self.server, StderrTail()
        self._tail = tail
        cwd = self._work_dir if server.cwd is None else server.cwd
        started = StdioServerParameters(
            command=server.command_or_url,
            args=list(server.args),
            env=dict(server.env),
            cwd=cwd,
            encoding_error_handler="replace",  # an invalid byte must not end the stream of messages
        )
        async with stdio_client(started, errlog=tail.writer) as (read, write):
            tail.writer.close()  # inherited by the program: the pipe ends with it
            yield _MessageStream(read, self._handle_end), write

    @asynccontextmanager
    async def _over_http(self) -> AsyncIterator[tuple[Any, Any]]:
        from httpx2 import AsyncClient, Timeout
        from mcp.client.streamable_http import streamable_http_client

        hooks: dict[str, list[Callable[..., Any]]] = {"response": [self._on_response]}
        # The transport follows redirects only within the same origin, so headers never reach another host.
        async with (
            AsyncClient(
                headers=dict(self.server.headers),
                timeout=Timeout(CONNECT_SECONDS, read=None),
                event_hooks=hooks,
                auth=await self._authentication(),
            ) as http,
            streamable_http_client(self.server.command_or_url, http_client=http, max_sse_event_size=MAX_LINE_BYTES) as streams,
        ):
            yield streams

    @asynccontextmanager
    async def _over_sse(self) -> AsyncIterator[tuple[Any, Any]]:
        """Connect over SSE, the older transport."""
        from mcp.client.sse import sse_client

        at = self.server.command_or_url, dict(self.server.headers), CONNECT_SECONDS, SSE_SECONDS
        async with sse_client(*at, auth=await self._authentication()) as (read, write):
            yield _MessageStream(read, self._handle_end), write

    async def _authentication(self) -> Any:
        """Return the authentication with the person's login, or None if there is no login, or if they set a header of their
        own.
        """
        kept = None if has_own_login(self.server) else await asyncio.to_thread(load_login, self.server.command_or_url)
        self._login = None if kept is None else LoggedIn(kept)
        return None if self._login is None else self._login.auth

    async def take_login(self) -> None:
        """Use the person's new login. A connection that began without one is closed, so that the next uses it."""
        if self._login is None:
            await self.close()
        else:
            await self._login.reload()

    async def _on_response(self, response: Any) -> None:
        if response.request.headers.get("content-type") == FORM:  # a token renewal by the authorization server
            return
        mend_response(response)
        if await is_session_unknown(response):
            self.is_forgotten, self.is_open = True, False
            response.status_code, response.headers["content-type"] = SESSION_UNKNOWN, ""  # in the form known to the client
        self._status = response.status_code
        if self._status in NOT_ALLOWED:
            replace_body(response, REFUSED_BODY)
            response.headers["content-type"] = "application/json"
            self.refusal = refusal_of(response, self.server)

    def _handle_end(self) -> None:
        """Handle the end of the server's output: the server has died, or this connection is closing."""
        self.is_open = False
        self._over.set()

    async def _watch(self, client: Client) -> None:
        """Subscribe to tool changes: under the newer protocol, servers announce them only to subscribers."""
        from mcp import MCPError
        from mcp.client.subscriptions import ListenNotSupportedError, SubscriptionLost

        capabilities = client.server_capabilities.tools
        if capabilities is None or not capabilities.list_changed:
            return
        with suppress(ListenNotSupportedError, SubscriptionLost, MCPError, TimeoutError):
            async with client.listen(tools_list_changed=True) as events:
                async for _ in events:
                    self._changed()

    async def _on_message(self, message: Any) -> None:
        from mcp.types import ToolListChangedNotification

        if isinstance(message, ToolListChangedNotification):
            self._changed()


async def _skip_validation(name: str, result: t.CallToolResult) -> None:
    """Accept a result without validation against its schema."""


def _make_readable(message: Any) -> Any:
    """Convert a message that the client cannot parse into a readable one, so that its request gets an answer."""
    from mcp.shared.message import SessionMessage
    from mcp.types import jsonrpc_message_adapter
    from pydantic import ValidationError

    if isinstance(message, ValidationError):
        with suppress(ValidationError):
            return SessionMessage(jsonrpc_message_adapter.validate_python(readable_message(message), by_name=False))
    return message


class _MessageStream:
    """A message stream with a callback at its end."""

    def __init__(self, stream: Any, ended: Callable[[], None]) -> None:
        self._stream = stream
        self._note_end = ended

    async def __aiter__(self) -> AsyncIterator[Any]:
        try:
            async for message in self._stream:
                yield _make_readable(message)
        finally:
            self._note_end()

    async def __aenter__(self) -> _MessageStream:
        await self._stream.__aenter__()
        return self

    async def __aexit__(self, *raised: Any) -> Any:
        return await self._stream.__aexit__(*raised)
