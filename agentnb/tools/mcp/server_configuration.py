"""Configured MCP servers: added by the person, loaded from a file, or read from the environment."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext, suppress

from agentnb import settings
from agentnb.advice import AddServer, AnyAdvice
from agentnb.errors import SettingsError, suggest_similar
from agentnb.tools.mcp.mcp_server import MCPServer
from agentnb.tools.mcp.server_settings import ServerList, read_variable

TYPED = "added"
"""Source of servers that the person added."""


class Configuration:
    """Servers by name. Added servers override those in files, which override those in ``MCP_SERVERS``.

    The file loaded last overrides earlier ones. The variable is read at each access.
    """

    def __init__(self, changing: Callable[[], AbstractContextManager[object]] = nullcontext) -> None:
        """``changing``: returns a context manager for each change, which may refuse it."""
        self._changing = changing
        self._added: dict[str, MCPServer] = {}
        self._of_files: dict[str, ServerList] = {}
        """Servers by file, in order of loading."""

    def add(self, server: MCPServer) -> None:
        """Configure a server, replacing any server with the same name."""
        with self._changing():
            self._added[server.name] = server

    def load(self, servers: ServerList, file: str) -> None:
        """Configure the servers in a file that the person named and confirmed, replacing those loaded from it before."""
        with self._changing():
            self._of_files.pop(file, None)
            self._of_files[file] = servers

    def remove(self, name: str) -> None:
        """Remove a server; another one with the same name may become visible.

        Raises `SettingsError` for an unknown server, or one from the variable.
        """
        with self._changing():
            source = self.source(name)
            if source == settings.SERVERS_VARIABLE:
                raise SettingsError(f"The MCP server {name} is configured in the variable {source}", "Change the variable")
            if not source:
                raise SettingsError(f"There is no MCP server {name}", suggest_similar(name, self.known))
            if source == TYPED:
                del self._added[name]
                return
            listed = self._of_files[source]
            kept = tuple([server for server in listed.servers if server.name != name])
            self._of_files[source] = listed._replace(servers=kept)

    @property
    def servers(self) -> Mapping[str, MCPServer]:
        """Available servers by name. Raises `SettingsError` if the variable is invalid."""
        return {**{server.name: server for server in self._of_variable().servers}, **self._given}

    def check(self) -> None:
        """Raise `SettingsError` if the variable is invalid."""
        self._of_variable()

    @property
    def known(self) -> Mapping[str, MCPServer]:
        """Available servers by name, ignoring an invalid variable."""
        with suppress(SettingsError):
            return self.servers
        return self._given

    def server(self, name: str) -> MCPServer:
        """Return a server by name. Raises `SettingsError` if it is not configured, or the variable is invalid."""
        server = self._given.get(name) or self._of_variable().find(name)
        if server is None:
            advice: tuple[AnyAdvice, ...] = (*suggest_similar(name, self.servers), AddServer(name, lead="Configure it"))
            raise SettingsError(f"There is no MCP server {name}", advice)
        return server

    def source(self, name: str) -> str:
        """Return the source of a server: `TYPED`, a file, the variable, or "" for an unknown server."""
        if name in self._added:
            return TYPED
        for file, servers in reversed(self._of_files.items()):
            if servers.find(name) is not None:
                return file
        return settings.SERVERS_VARIABLE if name in self.known else ""

    @property
    def _given(self) -> dict[str, MCPServer]:
        """Added servers, and those from files."""
        loaded = {server.name: server for servers in self._of_files.values() for server in servers.servers}
        return {**loaded, **self._added}

    def _of_variable(self) -> ServerList:
        return read_variable(settings.mcp_servers(), settings.SERVERS_VARIABLE)
