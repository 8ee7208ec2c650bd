"""The door that a run opens for an agent: an MCP server on a private socket, offering the notebook's functions."""

from __future__ import annotations

import asyncio
import os
import shutil
import socket
import sys
import tempfile
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping
from functools import partial
from hmac import compare_digest
from pathlib import Path
from secrets import token_hex
from struct import Struct
from typing import Any, TypeAlias

from agentnb.acp import bridge, guard
from agentnb.acp.agent_process import MAX_LINE_BYTES
from agentnb.core.redaction import redact
from agentnb.core.request import ToolSpec
from agentnb.errors import ModelError
from agentnb.tools.tool import ToolOutcome, failure

NAME = "notebook"
CREDENTIALS = Struct("3i")
"""Process, user and group ids at the other end of a socket."""
CallTool: TypeAlias = Callable[[str, Mapping[str, Any]], Awaitable[ToolOutcome]]
Serve: TypeAlias = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Coroutine[Any, Any, None]]


class Connections:
    """Servers on sockets, and their connections. A connection is served by a task and closed when the task ends."""

    def __init__(self) -> None:
        self._servers: list[asyncio.Server] = []
        self._tasks: set[asyncio.Task[None]] = set()
        self._is_closed = False

    async def listen(self, path: Path, serve: Serve, limit: int) -> None:
        """Create a socket and serve its clients. Raises OSError."""
        self._servers.append(await asyncio.start_unix_server(partial(self._accept, serve), path, limit=limit))

    async def close(self) -> None:
        """Close the sockets and all connections."""
        self._is_closed = True
        for server in self._servers:
            server.close()
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)

    def _accept(self, serve: Serve, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Start a task: asyncio's own would begin too late to be cancelled, and would report its cancellation as an error."""
        task = asyncio.ensure_future(serve(reader, writer))
        self._tasks.add(task)
        task.add_done_callback(partial(self._forget, writer))
        if self._is_closed:
            task.cancel()

    def _forget(self, writer: asyncio.StreamWriter, task: asyncio.Task[None]) -> None:
        """Remove a connection. Its error, such as a message that was too long, concerns only its client."""
        self._tasks.discard(task)
        writer.close()
        if not task.cancelled():
            task.exception()


class Door:
    """Server for a run, in a folder accessible only to the person. Each connection is a client started by the agent.

    A connection begins with a line that holds the door's secret, which only the agent is told. If the system
    identifies the process at the other end (Linux), that must be one of the agent's.
    """

    def __init__(self, tools: Iterable[ToolSpec], call: CallTool) -> None:
        self._tools = tuple(tools)
        self._call = call
        self._secret = token_hex()
        self._owner = 0
        self._folder: Path | None = None
        self._connections = Connections()

    async def open(self, owner: int, folder: str | None = None) -> dict[str, Any]:
        """Open the door, and return its server entry for a session: a command, since agents start their servers themselves.

        ``owner``: the ancestor of all of the agent's processes; ``folder``: parent of the door's folder, by default
        the one for temporary files. Raises `ModelError`.
        """
        self._owner = owner
        try:
            self._folder = Path(tempfile.mkdtemp(prefix="agentnb-", dir=folder))
            path = self._folder / "door"
            await self._connections.listen(path, self._serve, MAX_LINE_BYTES)
        except OSError as error:
            location = self._folder or folder or tempfile.gettempdir()
            raise ModelError(f"No socket for functions could be created in {location}: {error.strerror or error}") from error
        words, secret = ["-I", "-S", bridge.__file__, str(path)], {"name": bridge.SECRET, "value": self._secret}
        return {"name": NAME, "command": sys.executable, "args": words, "env": [secret]}

    async def close(self) -> None:
        """Close the door and all connections."""
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)
        await self._connections.close()

    async def _serve(self, reader: Any, writer: asyncio.StreamWriter) -> None:
        from mcp.server.lowlevel import Server
        from mcp.server.stdio import stdio_server

        server: Any = Server(NAME, on_list_tools=self._list, on_call_tool=self._run)
        output: Any = _Lines(writer)
        if not self._is_of_agent(writer) or not compare_digest(await reader.readline(), f"{self._secret}\n".encode()):
            return
        async with stdio_server(reader, output) as (read, write):
            await server.run(read, write, server.create_initialization_options())

    def _is_of_agent(self, writer: asyncio.StreamWriter) -> bool:
        """True if the process at the other end is one of the agent's, or if the system does not identify it."""
        if sys.platform != "linux":
            return True
        names = writer.get_extra_info("socket").getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, CREDENTIALS.size)
        process, user, _ = CREDENTIALS.unpack(names)
        return bool(user == os.getuid()) and guard.is_within(process, self._owner)

    async def _list(self, context: Any, params: Any) -> Any:
        from mcp.types import ListToolsResult, Tool

        tools = [Tool(name=tool.name, description=tool.description, input_schema=tool.input_schema) for tool in self._tools]
        return ListToolsResult(tools=tools)

    async def _run(self, context: Any, params: Any) -> Any:
        from mcp.types import CallToolResult, TextContent

        offered = [tool.name for tool in self._tools]
        if params.name in offered:
            outcome = await self._call(params.name, params.arguments or {})
        else:
            outcome = failure(
                "unknown_tool", f"There is no function {params.name}.", f"Available functions: {', '.join(offered)}."
            )
        return CallToolResult(content=[TextContent(type="text", text=redact(outcome.text))], is_error=not outcome.ok)


class _Lines:
    """Text stream on top of a byte writer, as the SDK's server requires."""

    def __init__(self, writer: asyncio.StreamWriter) -> None:
        self._writer = writer

    async def write(self, text: str) -> None:
        self._writer.write(text.encode())

    async def flush(self) -> None:
        await self._writer.drain()
