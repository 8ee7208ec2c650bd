"""Names of the tools of MCP servers as models see them."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from hashlib import sha256

from agentnb.errors import InvalidTool
from agentnb.tools.mcp.server import PREFIX, is_word, server_tools
from agentnb.tools.tool import WIRE_NAME

MAX_CHARACTERS = 64
FIND_TOOLS = "find_tools"
"""The tool that finds tools of servers."""
_DIGEST = 8
_MAX_SHOWN = 100
"""Characters of a tool's name in an error."""
_SEPARATOR = re.compile(r"[ ./:]")
_OTHER = re.compile(r"[^a-zA-Z0-9_-]")


def wire_name(server: str, tool: str, *, with_digest: bool = False) -> str:
    """Return the name under which a model sees a tool: ``mcp_clock_get_current_time``.

    Spaces and ``.``, ``/``, ``:`` become ``_``, as do other characters that providers refuse. A name above 64 characters, or of
    a tool with such others, ends with a digest: names in one foreign script would all be the same.
    """
    name = f"mcp_{_OTHER.sub('_', server)}_{_OTHER.sub('_', tool)}"
    if with_digest or len(name) > MAX_CHARACTERS or _OTHER.search(_SEPARATOR.sub("_", tool)):
        digest = sha256(f"{server}/{tool}".encode(errors="surrogatepass")).hexdigest()[:_DIGEST]
        name = f"{name[: MAX_CHARACTERS - _DIGEST - 1]}_{digest}"
    assert WIRE_NAME.fullmatch(name)
    return name


def wire_names(server: str, tools: Iterable[str]) -> dict[str, str]:
    """Return the names for models of the tools of a server; all whose names would be one end with a digest.

    None of them keeps the short name, since a rule with that may mean any of them.
    """
    names = {tool: wire_name(server, tool) for tool in tools}
    counts = Counter(names.values())
    return {tool: wire_name(server, tool, with_digest=counts[name] > 1) for tool, name in names.items()}


def tool_of_word(word: str) -> str:
    """Return the name for models of the tool that a word names: ``mcp:clock/now`` is ``mcp_clock_now``.

    A word for anything else is returned as it is, also one for all tools of a server.
    """
    item = server_tools(word)
    return word if item is None or not item.tool else wire_name(item.name, item.tool)


def may_be_of(server: str, name: str) -> bool:
    """Return whether a name may be that of a tool of this server, as far as is known before the server lists its tools."""
    prefix = f"mcp_{_OTHER.sub('_', server)}_"
    kept = prefix[: MAX_CHARACTERS - _DIGEST - 1]
    return name.startswith(prefix) or (len(name) == MAX_CHARACTERS and name.startswith(kept) and kept != prefix)


def is_named(name: str, words: Iterable[str]) -> bool:
    """Return whether a tool is named by ``mcp:SERVER/TOOL``, or may be one of a server that one of the words names."""
    if name.startswith(PREFIX):
        return is_word(name) and tool_of_word(name) != name
    return any(may_be_of(word.removeprefix(PREFIX).partition("/")[0], name) for word in words if word.startswith(PREFIX))


class WireNames:
    """The names of tools of servers, each of one tool."""

    def __init__(self) -> None:
        self._tools: dict[str, tuple[str, str]] = {}

    def add(self, server: str, tool: str, name: str) -> str:
        """Take the name of a tool, and return it. Raises `InvalidTool` if another tool has it, naming both."""
        known = self._tools.setdefault(name, (server, tool))
        if known != (server, tool):
            what = f"{_shown(*known)} and {_shown(server, tool)} would both be called {name}"
            raise InvalidTool(what, f"Name the tools that you need: mcp:{server}/TOOL, or give a server another name")
        return name

    def free(self, server: str, tool: str) -> str:
        """Return the name of a tool if no other has it, and take it; else an empty text."""
        name = wire_name(server, tool)
        return name if self._tools.setdefault(name, (server, tool)) == (server, tool) else ""


def _shown(server: str, tool: str) -> str:
    return f"{tool[:_MAX_SHOWN]!r} of the MCP server {server}"
