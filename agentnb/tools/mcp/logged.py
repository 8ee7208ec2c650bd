"""MCP servers in the logged settings of a run: names, commands and addresses. A log alone never starts a server."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from agentnb.core.messages import encodable_data
from agentnb.tools.mcp.mcp_server import ServerTools, is_name, target_text
from agentnb.tools.mcp.wire_names import FIND_TOOLS, may_be_of

SERVERS = "mcp_servers"
"""Key of the MCP servers in the settings of a run."""


_SPLITS = re.compile(r"[\s,]")


@dataclass(frozen=True, slots=True)
class LoggedServer:
    """A server as logged."""

    name: str
    target: str
    """Command with arguments, or address, and roots, for display."""
    tools: tuple[str, ...] = ()
    """Tools that the run named individually; empty for all."""

    @property
    def items(self) -> tuple[ServerTools, ...]:
        """The tools as items of ``tools=``, which look the server up by name."""
        return tuple([ServerTools(self.name, tool) for tool in self.tools or ("",)])

    @property
    def words(self) -> tuple[str, ...]:
        """Words for the tools, as a person types them; a single word for the entire server if a name has a space or comma."""
        words = [item.word for item in self.items]
        return tuple(words) if not any(_SPLITS.search(word) for word in words) else (ServerTools(self.name).word,)


def logged_servers(items: Iterable[ServerTools]) -> dict[str, Any]:
    """Return these servers as logged in the settings, without values of ``env`` and ``headers``."""
    entries: dict[str, dict[str, Any]] = {}
    for item in items:
        if item.server is not None:
            entry = entries.setdefault(item.name, {**item.server.as_logged, "tools": []})
            entry["tools"].append(item.tool)
    for entry in entries.values():
        if not all(entry["tools"]):
            del entry["tools"]
    return {SERVERS: encodable_data(entries)} if entries else {}


def servers_of_log(settings: Mapping[str, Any]) -> dict[str, LoggedServer]:
    """Return the servers in the settings of a log by name, skipping invalid entries."""
    logged = settings.get(SERVERS)
    servers: dict[str, LoggedServer] = {}
    for name, entry in logged.items() if isinstance(logged, dict) else ():
        target = entry.get("command_or_url") if isinstance(entry, dict) else None
        if isinstance(target, str) and is_name(name):
            args, roots, tools = (_texts(entry.get(key)) for key in ("args", "roots", "tools"))
            servers[name] = LoggedServer(name, target_text(target, args, roots), tools)
    return servers


def without_tools_of_servers(settings: Mapping[str, Any], names: Iterable[str]) -> list[str]:
    """Return the tool names that cannot belong to a server in the settings of a log."""
    servers = servers_of_log(settings)
    return [
        name
        for name in names
        if not (servers and name == FIND_TOOLS) and not any(may_be_of(server, name) for server in servers)
    ]


def _texts(value: Any) -> tuple[str, ...]:
    return tuple([text for text in value if isinstance(text, str)]) if isinstance(value, list) else ()
