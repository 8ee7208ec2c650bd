"""Names of the tools of MCP servers as models see them."""

from __future__ import annotations

import re
from hashlib import sha256

from agentnb.errors import InvalidTool
from agentnb.tools.tool import WIRE_NAME

MAX_CHARACTERS = 64
_DIGEST = 8
_OTHER = re.compile(r"[^a-zA-Z0-9_-]")


def wire_name(server: str, tool: str) -> str:
    """Return the name under which a model sees a tool: ``mcp_clock_get_current_time``.

    Characters that providers refuse become ``_``; a name above 64 characters ends with a digest instead.
    """
    name = f"mcp_{_OTHER.sub('_', server)}_{_OTHER.sub('_', tool)}"
    if len(name) > MAX_CHARACTERS:
        marked = sha256(f"{server}/{tool}".encode()).hexdigest()[:_DIGEST]
        name = f"{name[: MAX_CHARACTERS - _DIGEST - 1]}_{marked}"
    assert WIRE_NAME.fullmatch(name)
    return name


class WireNames:
    """The names of tools of servers, both ways."""

    def __init__(self) -> None:
        self._tools: dict[str, tuple[str, str]] = {}

    def add(self, server: str, tool: str) -> str:
        """Return the name of a tool. Raises `InvalidTool` if another tool has it, naming both."""
        name = wire_name(server, tool)
        known = self._tools.setdefault(name, (server, tool))
        if known != (server, tool):
            what = f"{_shown(*known)} and {_shown(server, tool)} would both be called {name}"
            raise InvalidTool(what, f"Name the tools that you need: mcp:{server}/TOOL, or give a server another name")
        return name

    def free(self, server: str, tool: str) -> str:
        """Return the name of a tool if no other has it, and take it; else an empty text."""
        name = wire_name(server, tool)
        return name if self._tools.setdefault(name, (server, tool)) == (server, tool) else ""

    def origin(self, name: str) -> tuple[str, str] | None:
        """Return the server and the tool of a name; None for any other name."""
        return self._tools.get(name)


def _shown(server: str, tool: str) -> str:
    return f"{tool!r} of the MCP server {server}"
