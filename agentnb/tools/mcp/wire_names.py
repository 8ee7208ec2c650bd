"""Names under which models see MCP tools."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from fnmatch import fnmatchcase
from functools import lru_cache
from hashlib import sha256

from agentnb.tools.mcp.mcp_server import PREFIX, is_word, server_tools
from agentnb.tools.tool import WIRE_NAME

MAX_CHARACTERS = 64
FIND_TOOLS = "find_tools"
"""Tool that searches for tools of servers."""
_DIGEST = 8
_SEPARATOR = re.compile(r"[ ./:]")
_OTHER = re.compile(r"[^a-zA-Z0-9_-]")
WILDCARDS = frozenset("*?[")
"""Characters that turn a word in a rule into a shell pattern."""


def wire_name(server: str, tool: str, *, with_digest: bool = False) -> str:
    """Return the name of a tool for models, such as ``mcp_clock_get_current_time``.

    Spaces, ``.``, ``/``, ``:`` and other characters that providers refuse become ``_``. A name that is longer than 64
    characters, or has any of those other characters, ends with a digest; otherwise, names in a non-Latin script would all be
    equal.
    """
    name = f"mcp_{_OTHER.sub('_', server)}_{_OTHER.sub('_', tool)}"
    if with_digest or len(name) > MAX_CHARACTERS or _OTHER.search(_SEPARATOR.sub("_", tool)):
        digest = sha256(f"{server}/{tool}".encode(errors="surrogatepass")).hexdigest()[:_DIGEST]
        name = f"{name[: MAX_CHARACTERS - _DIGEST - 1]}_{digest}"
    assert WIRE_NAME.fullmatch(name)
    return name


def wire_names(tools: Iterable[tuple[str, str]]) -> dict[tuple[str, str], str]:
    """Return the names that models see for these tools, each identified by server and tool name; conflicting names end with a
    digest.

    All of them get a digest, since a rule with the short name may mean any of them.
    """
    names = {tool: wire_name(*tool) for tool in tools}
    counts = Counter(names.values())
    return {tool: wire_name(*tool, with_digest=counts[name] > 1) for tool, name in names.items()}


def may_mean(word: str, name: str, server: str, tool: str) -> bool:
    """True if a word in a rule may mean this tool of a server, or all of the server's tools, in any spelling.

    ``name``: name for models. The short name matches every tool that would share it; spellings of other programs match, too.
    """
    plain = word.casefold()
    if not tool:  # from a recording, with only its name
        return tool_of_word(word) == name
    named = [wire_name(server, tool), wire_name(server, tool, with_digest=True), f"mcp__{server}"]
    named += [
        f"{begin}{joined}{spelling}" for begin, joined in _spellings(server) for spelling in (tool, _OTHER.sub("_", tool))
    ]
    return any(spelling == plain or fnmatchcase(spelling, plain) for spelling in map(str.casefold, named))


def may_mean_any(server: str, word: str) -> bool:
    """True if a word, or the beginning of a pattern, may mean tools of a server that are not listed yet."""
    plain, prefixes = word.casefold(), ["".join(spelling).casefold() for spelling in _spellings(server)]
    return may_be_of(server, word) or plain == f"mcp__{server}".casefold() or any(map(plain.startswith, prefixes))


def _spellings(server: str) -> list[tuple[str, str]]:
    """Return the possible prefixes of tool names in rules, each with its separator."""
    forms = (("mcp_", "_"), ("mcp__", "__"), (PREFIX, "/"), ("", "/"))
    return [(f"{begin}{name}", joined) for begin, joined in forms for name in dict.fromkeys((server, _OTHER.sub("_", server)))]


def registry_name(word: str) -> str:
    """Return the registered name of a tool: ``web.fetch``, ``web/fetch`` and ``web:fetch`` become ``web_fetch``.

    Words for server tools are returned unchanged.
    """
    return word if word.startswith(PREFIX) else re.sub("[./:]", "_", word)


@lru_cache(maxsize=1024)
def tool_of_word(word: str) -> str:
    """Convert a word for a tool to the tool's name for models: ``mcp:clock/now`` becomes ``mcp_clock_now``; see
    `registry_name`.

    A word for all tools of a server is returned unchanged.
    """
    item = server_tools(word)
    return registry_name(word) if item is None or not item.tool else wire_name(item.name, item.tool)


def may_be_of(server: str, name: str) -> bool:
    """True if a name may belong to a tool of this server, before the server has listed its tools."""
    prefix = f"mcp_{_OTHER.sub('_', server)}_"
    kept = prefix[: MAX_CHARACTERS - _DIGEST - 1]
    return name.startswith(prefix) or (len(name) == MAX_CHARACTERS and name.startswith(kept) and kept != prefix)


def is_named(name: str, words: Iterable[str]) -> bool:
    """True if one of the words names a tool as ``mcp:SERVER/TOOL``, or names a server that the tool may belong to."""
    if name.startswith(PREFIX):
        return is_word(name) and tool_of_word(name) != name
    return any(may_be_of(word.removeprefix(PREFIX).partition("/")[0], name) for word in words if word.startswith(PREFIX))
