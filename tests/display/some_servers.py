"""Views of MCP servers: one that runs, with hostile texts, and one that could not be started."""

from __future__ import annotations

from pathlib import Path

from mcp_runs import bench

from agentnb.display.lists.server_list import server_list_html
from agentnb.display.lists.server_view import server_html
from agentnb.errors import ServerFailed
from agentnb.runtime.servers.servers import Servers
from agentnb.tools.mcp.connections.server_catalogue import catalogue_of
from agentnb.tools.mcp.mcp_server import MCPServer, ServerTools


def server_views() -> list[str]:
    """Return the list of servers, and the running one, as HTML."""
    held = Servers()
    held.configuration.add(bench("hostile"))
    held.configuration.add(MCPServer("gone", "no-such-program"))
    try:
        catalogue = held.ask(held.live(ServerTools("bench"), Path("/work")), catalogue_of)
        try:
            held.ask(held.live(ServerTools("gone"), Path("/work")), catalogue_of)
        except ServerFailed:
            rows = held.listed(Path("/work"))
        return [server_list_html(rows, "A hint"), server_html(rows[0], catalogue, ["A hint"])]
    finally:
        held.close()
