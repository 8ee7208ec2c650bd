"""The MCP servers of a session as a list: configured, connected, or both."""

from __future__ import annotations

from typing import NamedTuple

from agentnb.runtime.servers.servers import Servers
from agentnb.tools.mcp.connections.live_server import LiveServer, State
from agentnb.tools.mcp.server import MCPServer

IN_CODE = "in code"


class ListedServer(NamedTuple):
    """A server that is configured, or one connection to it."""

    server: MCPServer
    source: str
    """Where it is configured: ``added``, a file, the variable, or in code."""
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
    """Return a row for each connection, and for each configured server without one.

    Those of a variable that cannot be read are left out.
    """
    configured, used = servers.configuration.known, servers.used
    rows = []
    for name, server in sorted(configured.items()):
        source = servers.configuration.source(name)
        of_it = [live for live in used if live.server == server]
        rows += [ListedServer(server, source, live) for live in of_it or (None,)]
    return rows + [ListedServer(live.server, IN_CODE, live) for live in used if live.server not in configured.values()]
