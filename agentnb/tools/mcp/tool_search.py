"""Search for tools of MCP servers, for runs with more tools than requests can list."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from math import log
from typing import Any, NamedTuple

import msgspec

from agentnb.core.messages import Text
from agentnb.core.request import ToolRole, ToolSpec
from agentnb.tools.defaults import MAX_OFFERED
from agentnb.tools.mcp.server_tool import MCPTool
from agentnb.tools.mcp.wire_names import FIND_TOOLS
from agentnb.tools.tool import Effect, ToolContext, ToolOutcome, failure

DEFAULT_FOUND, MAX_FOUND = 5, 20
MAX_LINE_CHARACTERS = 200
MAX_SERVERS_NAMED = 20
MAX_QUERY_CHARACTERS = 500
FOUND, KNOWN = "You can call these from your next reply on:", "You already have these:"


class Offer(NamedTuple):
    """Names of the server tools that the next request offers, and of those that it hides."""

    shown: tuple[str, ...]
    """Names of the offered tools, in the order of the request."""
    hidden: tuple[str, ...] = ()


def next_offer(own: int, servers: Sequence[str], before: Iterable[str] = (), wanted: Iterable[str] = ()) -> Offer:
    """Decide which server tools the next request offers.

    ``own``: number of tools in every request; ``before``: server tools of the last request, which stay in order; ``wanted``:
    tools that the person named individually, and tools that the model found.
    """
    offered = dict.fromkeys(servers)
    kept = [name for name in dict.fromkeys(before) if name in offered or name == FIND_TOOLS]
    if own + len(offered) <= MAX_OFFERED:
        return Offer(tuple(dict.fromkeys([*kept, *offered])))
    wanted = [name for name in wanted if name in offered]
    is_enough = len({*kept, *wanted} - {FIND_TOOLS}) == len(offered)
    shown = dict.fromkeys([*kept, *([] if is_enough else [FIND_TOOLS]), *wanted])
    return Offer(tuple(shown), tuple([name for name in offered if name not in shown]))


class ToolFinder:
    """The tool that searches for tools of servers."""

    effects: frozenset[Effect] = frozenset()
    parallel_safe, blocking = True, False
    timeout: float | None = None
    role: ToolRole = "planning"

    def __init__(
        self,
        tools: Callable[[], Sequence[MCPTool]],
        offer: Callable[[Sequence[str]], Sequence[str]],
        servers: Mapping[str, int],
    ) -> None:
        """``tools`` returns all tools of servers; ``servers``: number of tools by server.

        ``offer`` adds tools to the next request, and returns those that are new.
        """
        self._tools = tools
        self._offer = offer
        properties = {
            "query": {"type": "string", "description": "what the tool should do, in a few words: list the files of a folder"},
            "limit": {"type": "integer", "minimum": 1, "maximum": MAX_FOUND, "default": DEFAULT_FOUND},
        }
        schema = {"type": "object", "properties": properties, "required": ["query"]}
        self.spec = ToolSpec(FIND_TOOLS, _description(servers), schema, role=self.role)

    async def run(self, arguments: Any, context: ToolContext) -> ToolOutcome:
        """Return the best matches; the next request offers these tools."""
        parameters = arguments if isinstance(arguments, dict) else {}
        query, limit = parameters.get("query"), parameters.get("limit", DEFAULT_FOUND)
        if not isinstance(query, str) or type(limit) is not int or not 1 <= limit <= MAX_FOUND:
            problem = f"query must be a string, and limit a number from 1 to {MAX_FOUND}."
            return failure("invalid_arguments", problem, 'Call it as {"query": "list files"}.')
        matches = rank_tools(query, self._tools())[:limit]
        if not matches:
            advice = "Use other words, or continue with the tools that you have."
            return failure("nothing_found", "No server tool matches these words.", advice)
        new = self._offer([tool.spec.name for tool in matches])
        lines = {tool.spec.name: _line(tool.spec) for tool in matches}
        offered = [FOUND, *[lines[name] for name in new]] if new else []
        repeated = [line for name, line in lines.items() if name not in new]
        return ToolOutcome(True, (Text("\n".join([*offered, *([KNOWN, *repeated] if repeated else [])])),))


def _description(servers: Mapping[str, int]) -> str:
    """Return the description of the tool, with the servers and the number of tools on each."""
    counts = [f"{name} ({count})" for name, count in servers.items()]
    more = len(counts) - MAX_SERVERS_NAMED
    named = ", ".join(counts[:MAX_SERVERS_NAMED]) + (f" and {more} more servers" if more > 0 else "")
    return (
        f"Search for tools by keyword. Servers offer {sum(servers.values())} tools: {named}. Only some are listed here; "
        "find the others before you call them, and before you say that something cannot be done."
    )


def _line(spec: ToolSpec) -> str:
    first = spec.description.strip().partition("\n")[0]
    return (f"{spec.name}: {first}" if first else spec.name)[:MAX_LINE_CHARACTERS]


# Ranking

NAME_WEIGHT = 3.0
"""Weight of a word in the name; other words weigh 1."""
SIMILAR_WEIGHT, RELATED_WEIGHT = 0.7, 0.5
"""Weights of a misspelt word and of a synonym."""
_MIN_SIMILARITY = 80
"""Minimum similarity, in per cent, between a word and a misspelling of it."""
_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+|[^\W\d_A-Za-z]+")
_ENDING = re.compile(r"(?<=[a-z]{3})(?:ies|ing|ion|ed|es|e|s|y)$")
_IGNORED = (
    "a all an and any are as at be by can for from how i in into is it its me my of on or that the there these this to tool "
    "use using what which with you"
)
_RELATED = (
    "delete remove erase drop",
    "create make add new insert",
    "get read show view open fetch return",
    "list enumerate contents",
    "search find query lookup",
    "update edit modify change replace",
    "write save store put",
    "move rename",
    "merge combine join",
    "compare diff difference",
    "run execute trigger start",
    "validate check verify",
    "count many number",
    "send post",
    "directory folder",
    "image picture photo",
    "log history",
    "size large big",
    "zip compress gzip",
)
"""Synonyms in tool names."""


def rank_tools(query: str, tools: Sequence[MCPTool]) -> list[MCPTool]:
    """Return the tools whose name, title, description or arguments match words of the query, best first.

    Rare words and words of the name count more; misspelt and related words count less.
    """
    texts = [_words_of(tool) for tool in tools]
    counts = Counter(word for words in texts for word in words)
    wanted = [_meanings(word, counts) for word in dict.fromkeys(_words(query[:MAX_QUERY_CHARACTERS]))]
    rarity = {word: log(1 + len(texts) / count) for word, count in counts.items()}
    scores = [
        sum(
            [
                max([words.get(word, 0.0) * share * rarity[word] for word, share in meant.items()], default=0.0)
                for meant in wanted
            ]
        )
        for words in texts
    ]
    order = sorted(range(len(tools)), key=lambda place: -scores[place])
    return [tools[index] for index in order if scores[index] > 0]


def _words(text: str) -> list[str]:
    """Split text, including identifiers, into lowercase words without endings."""
    return [_stem(word) for word in map(str.lower, _WORD.findall(text)) if word not in _ignored]


@lru_cache(10_000)
def _stem(word: str) -> str:
    return _ENDING.sub("", word)


def _words_of(tool: MCPTool) -> dict[str, float]:
    """Return the words of a tool with their weights."""
    arguments = msgspec.json.encode(tool.spec.input_schema.get("properties")).decode()
    words = _words(f"{tool.spec.name} {tool.title} {tool.spec.description} {arguments}")
    return dict.fromkeys(words, 1.0) | dict.fromkeys(_words(tool.tool_name), NAME_WEIGHT)


def _meanings(word: str, known: Mapping[str, int]) -> dict[str, float]:
    """Return the known words that a query word may mean, with their weights."""
    from rapidfuzz import fuzz, process

    meant = dict.fromkeys([synonym for synonym in _related.get(word, ()) if synonym in known], RELATED_WEIGHT)
    for similar, _, _ in process.extract(word, known.keys(), scorer=fuzz.ratio, score_cutoff=_MIN_SIMILARITY):
        meant[similar] = SIMILAR_WEIGHT
    return meant | ({word: 1.0} if word in known else {})


_related = {_stem(word): tuple([_stem(synonym) for synonym in group.split()]) for group in _RELATED for word in group.split()}
_ignored = frozenset(_IGNORED.split())
