"""Names of the tools of MCP servers as models see them."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from fnmatch import fnmatchcase
from functools import lru_cache
from hashlib import sha256

from agentnb.tools.mcp.server import PREFIX, is_word, server_tools
from agentnb.tools.tool import WIRE_NAME

MAX_CHARACTERS = 64
FIND_TOOLS = "find_tools"
"""The tool that finds tools of servers."""
_DIGEST = 8
_SEPARATOR = re.compile(r"[ ./:]")
_OTHER = re.compile(r"[^a-zA-Z0-9_-]")
WILDCARDS = frozenset("*?[")
"""Characters that make a word of a rule a shell pattern."""


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


def wire_names(tools: Iterable[tuple[str, str]]) -> dict[tuple[str, str], str]:
    """Return the names for models of tools, each given as server and tool; all whose names would be one end with a digest.

    None of them keeps the short name, since a rule with that may mean any of them.
    """
    names = {tool: wire_name(*tool) for tool in tools}
    counts = Counter(names.values())
    return {tool: wire_name(*tool, with_digest=counts[name] > 1) for tool, name in names.items()}


def may_mean(word: str, name: str, server: str, tool: str) -> bool:
    """Return whether a word of a rule may mean this tool of a server, or all tools of it, in any spelling.

    ``name``: that for models. The short name means each of the tools that would share it; so do forms of other programs.
    """
    plain = word.casefold()
    if not tool:  # recorded: only its name is known
        return tool_of_word(word) == name
    named = [wire_name(server, tool), wire_name(server, tool, with_digest=True), f"mcp__{server}"]
    named += [f"{begin}{joined}{spelling}" for begin, joined in _spellings(server) for spelling in (tool, _OTHER.sub("_", tool))]
    return any(spelling == plain or fnmatchcase(spelling, plain) for spelling in map(str.casefold, named))


def may_mean_any(server: str, word: str) -> bool:
    """Return whether a word, or the beginning of a pattern, may mean tools of a server that are not known yet."""
    plain, prefixes = word.casefold(), ["".join(spelling).casefold() for spelling in _spellings(server)]
    return may_be_of(server, word) or plain == f"mcp__{server}".casefold() or any(map(plain.startswith, prefixes))


def _spellings(server: str) -> list[tuple[str, str]]:
    """Return the texts before the name of a tool in the spellings of rules, each with what joins both."""
    forms = (("mcp_", "_"), ("mcp__", "__"), (PREFIX, "/"), ("", "/"))
    return [(f"{begin}{name}", joined) for begin, joined in forms for name in dict.fromkeys((server, _OTHER.sub("_", server)))]


def registry_name(word: str) -> str:
    """Return a name of a tool as it is registered: ``web.fetch``, ``web/fetch`` and ``web:fetch`` are ``web_fetch``.

    Words for the tools of servers are returned as they are.
    """
    return word if word.startswith(PREFIX) else re.sub("[./:]", "_", word)


@lru_cache(maxsize=1024)
def tool_of_word(word: str) -> str:
    """Return the name for models of the tool that a word names: ``mcp:clock/now`` is ``mcp_clock_now``; see `registry_name`.

    A word for all tools of a server is returned as it is.
    """
    item = server_tools(word)
    return registry_name(word) if item is None or not item.tool else wire_name(item.name, item.tool)


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
