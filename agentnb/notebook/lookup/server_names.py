"""MCP servers by the words that people type: configured servers, and the tools of connected servers."""

from __future__ import annotations

from collections.abc import Iterable

from agentnb.core.request import ToolSpec
from agentnb.session.session import Session
from agentnb.tools.mcp.connections.live_server import LiveServer
from agentnb.tools.mcp.mcp_server import ServerTools
from agentnb.tools.mcp.server_tool import tools_of_server


def server_words(session: Session) -> list[str]:
    """Return the words for configured servers."""
    return [ServerTools(name).word for name in session.servers.configuration.known]


def tool_words(session: Session) -> list[str]:
    """Return the words for individual tools of connected servers. Names with spaces or commas are omitted, as they cannot be
    typed.
    """
    names = session.servers.configuration.known
    words = {
        ServerTools(live.server.name, tool.name).word
        for live in session.servers.used
        for tool in live.tools
        if live.server.name in names
    }
    return sorted(word for word in words if len(word.replace(",", " ").split()) == 1)


def specs_of(session: Session, item: ServerTools) -> list[ToolSpec]:
    """Return the tools of a server as models see them; empty if no run has connected to it yet."""
    live = next((server for server in session.servers.used if _is_meant(server, item) and server.tools), None)
    usable = () if live is None else tools_of_server(live, live.tools).usable
    return [tool.spec for tool in usable if tool.is_of(item)]


def shown_later(items: Iterable[ServerTools]) -> list[str]:
    """Return a line for each of these items whose tools remain unknown until a run connects."""
    return [f"{item.word}: the tools of this server are listed when the run starts" for item in items]


def _is_meant(live: LiveServer, item: ServerTools) -> bool:
    return live.server == item.server if item.server is not None else live.server.name == item.name
