"""The MCP servers that a person has configured: typed in, from a file that they named, from the environment."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext, suppress

from agentnb import settings
from agentnb.advice import AddServer, AnyAdvice
from agentnb.errors import SettingsError, nearest
from agentnb.tools.mcp.server import MCPServer
from agentnb.tools.mcp.server_settings import ServerList, read_variable

TYPED = "added"
"""The source of servers that the person typed."""


class Configuration:
    """Servers by name. One that was added wins over one of a file, which wins over one of ``MCP_SERVERS``.

    Of several files, the one that was loaded last wins. The variable is read at each look.
    """

    def __init__(self, changing: Callable[[], AbstractContextManager[object]] = nullcontext) -> None:
        """``changing``: makes the context of each change, which may refuse it."""
        self._changing = changing
        self._added: dict[str, MCPServer] = {}
        self._of_files: dict[str, ServerList] = {}
        """The servers of each file, the last loaded last."""

    def add(self, server: MCPServer) -> None:
        """Configure a server, replacing one of its name."""
        with self._changing():
            self._added[server.name] = server

    def load(self, servers: ServerList, file: str) -> None:
        """Configure the servers of a file that the person named and confirmed, replacing those it had before."""
        with self._changing():
            self._of_files.pop(file, None)
            self._of_files[file] = servers

    def remove(self, name: str) -> None:
        """Forget the server that a name stands for; another one of this name may come in its place.

        Raises `SettingsError` if there is none, or the variable has it.
        """
        with self._changing():
            source = self.source(name)
            if source == settings.SERVERS_VARIABLE:
                raise SettingsError(f"The MCP server {name} is one of the variable {source}", "Change that")
            if not source:
                raise SettingsError(f"There is no MCP server {name}", nearest(name, self.known))
            if source == TYPED:
                del self._added[name]
                return
            listed = self._of_files[source]
            kept = tuple([server for server in listed.servers if server.name != name])
            self._of_files[source] = listed._replace(servers=kept)

    @property
    def servers(self) -> Mapping[str, MCPServer]:
        """The servers that can be named, by name. Raises `SettingsError` if the variable cannot be read."""
        return {**{server.name: server for server in self._of_variable().servers}, **self._given}

    def check(self) -> None:
        """Raise `SettingsError` if the variable cannot be read."""
        self._of_variable()

    @property
    def known(self) -> Mapping[str, MCPServer]:
        """The servers that can be named, by name, without those of a variable that cannot be read."""
        with suppress(SettingsError):
            return self.servers
        return self._given

    def server(self, name: str) -> MCPServer:
        """Return the server of this name. Raises `SettingsError` if none is configured, or the variable cannot be read."""
        server = self._given.get(name) or self._of_variable().named(name)
        if server is None:
            advice: tuple[AnyAdvice, ...] = (*nearest(name, self.servers), AddServer(name, lead="Configure it"))
            raise SettingsError(f"There is no MCP server {name}", advice)
        return server

    def source(self, name: str) -> str:
        """Return where a server is configured: `TYPED`, a file, or the variable; empty for one that is not."""
        if name in self._added:
            return TYPED
        for file, servers in reversed(self._of_files.items()):
            if servers.named(name) is not None:
                return file
        return settings.SERVERS_VARIABLE if name in self.known else ""

    @property
    def _given(self) -> dict[str, MCPServer]:
        """The servers that were loaded or added."""
        loaded = {server.name: server for servers in self._of_files.values() for server in servers.servers}
        return {**loaded, **self._added}

    def _of_variable(self) -> ServerList:
        return read_variable(settings.mcp_servers(), settings.SERVERS_VARIABLE)
