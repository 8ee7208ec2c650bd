"""The MCP servers that a person has configured: typed in, from a file that they named, from the environment."""

from __future__ import annotations

from collections.abc import Iterable

from agentnb.advice import AddServer
from agentnb.errors import SettingsError, nearest
from agentnb.tools.mcp.server import MCPServer


class Configuration:
    """Servers by name. One that was added wins over one of a file, which wins over one of ``MCP_SERVERS``."""

    def __init__(self) -> None:
        self._added: dict[str, MCPServer] = {}
        self._of_files: dict[str, MCPServer] = {}

    def add(self, server: MCPServer) -> None:
        """Configure a server, replacing one of its name."""
        self._added[server.name] = server

    def load(self, servers: Iterable[MCPServer]) -> None:
        """Configure the servers of a file that the person named and confirmed."""
        self._of_files.update({server.name: server for server in servers})

    @property
    def servers(self) -> dict[str, MCPServer]:
        """The servers that can be named, by name. Raises `SettingsError` for a variable that cannot be read."""
        return {**self._of_files, **self._added}

    def origin(self, name: str) -> str:
        """Return where a server is configured, in words: ``added``, ``file``."""
        return "added" if name in self._added else "file"

    def server(self, name: str) -> MCPServer:
        """Return the server of this name. Raises `SettingsError` if none is configured, or the variable cannot be read."""
        found = self.servers.get(name)
        if found is None:
            raise SettingsError(
                f"There is no MCP server {name}", (*nearest(name, self.servers), AddServer(name, lead="Configure it"))
            )
        return found
