"""Accepting an MCP server as it is now: its command or address, and its tools, count as first seen from here on."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING

from agentnb.runtime.questions.model_code import check_person
from agentnb.runtime.servers.first_seen import first_seen
from agentnb.tools.mcp.connections.live_server import LiveServer
from agentnb.tools.mcp.server_tool import MCPTool, problem_of
from agentnb.tools.mcp.wire_names import wire_name

if TYPE_CHECKING:
    from mcp import types as t


ACCEPTING = "Accepting an MCP server as it is now"
"""The act, for the code of a model, which may not do it."""


def compared_tools(live: LiveServer, tools: Iterable[t.Tool]) -> list[MCPTool]:
    """Return the tools of a server with what has changed of them since they were first seen, if they were."""
    found = [MCPTool(live, tool, wire_name(live.server.name, tool.name)) for tool in tools if not problem_of(tool)]
    first_seen.note(found)
    for tool in found:
        tool.change_since_seen = partial(first_seen.change, tool)
    return found


def accept_server(live: LiveServer, tools: Sequence[MCPTool]) -> bool:
    """Take a server and these tools of it as they are: rules that allow count for them, also in runs that are live.

    Returns whether that outlives this process. Raises `SettingsError` in the code of a model.
    """
    check_person(ACCEPTING, is_lasting=True)
    return first_seen.accept(live.server, tools)
