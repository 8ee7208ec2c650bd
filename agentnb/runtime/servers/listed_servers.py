"""The MCP servers of a session as a list: configured, connected, or both."""

from __future__ import annotations

from typing import NamedTuple

from agentnb.runtime.servers.servers import Servers
from agentnb.tools.mcp.live_server import LiveServer, State
from agentnb.tools.mcp.server import MCPServer

IN_CODE = "in code"


class ListedServer(NamedTuple):
    """A server that is configured, or one connection to it."""

    server: MCPServer
    origin: str
    """Where it is configured, in words."""
    live: LiveServer | None = None

    @property
    def state(self) -> State:
        """The state of its connection."""
        return "configured" if self.live is None else self.live.state

    @property
    def problem(self) -> str:
        """Why it could not be started."""
        return "" if self.live is None else self.live.problem


def listed_servers(servers: Servers) -> list[ListedServer]:
    """Return a row for each connection, and for each configured server without one. Raises `SettingsError`."""
    configured, used = servers.configuration.servers, servers.used
    rows = []
    for name, server in sorted(configured.items()):
        origin = servers.configuration.origin(name)
        of_it = [live for live in used if live.server == server]
        rows += [ListedServer(server, origin, live) for live in of_it or (None,)]
    return rows + [ListedServer(live.server, IN_CODE, live) for live in used if live.server not in configured.values()]
