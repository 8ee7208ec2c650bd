"""Tools of MCP servers found by words, where there are too many for every request to offer all."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from math import log
from typing import Any

from rapidfuzz import fuzz, process

from agentnb.core.messages import Text
from agentnb.core.request import ToolRole, ToolSpec
from agentnb.tools.tool import Effect, Tool, ToolContext, ToolOutcome, failure

FIND_TOOLS = "find_tools"
MAX_OFFERED = 40
"""Tools that each request offers; of more, those of servers are found by words."""
DEFAULT_FOUND, MAX_FOUND = 5, 20
MAX_LINE_CHARACTERS = 200
_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+|[^\W\d_A-Za-z]+")
_STOP_WORDS = frozenset(
    {"a", "an", "and", "for", "from", "in", "is", "it", "of", "on", "or", "the", "this", "to", "tool", "with"}
)
_NAME_WEIGHT = 3.0
_MIN_SIMILARITY = 84
"""Similarity of two words, in percent, from which they count as one word with a typing error."""


def offered(own: int, servers: Mapping[str, Tool], named: Container[str], before: Container[str]) -> list[str]:
    """Return the names of the servers' tools that the next request offers.

    ``own``: the number of tools that are always offered; ``named``: those of servers that the person named one by one;
    ``before``: those that the last request offered.
    """
    if own + len(servers) <= MAX_OFFERED:
        return list(servers)
    return [name for name in servers if name in named or name in before]


def ranked(query: str, tools: Iterable[Tool]) -> list[Tool]:
    """Return the tools that have words of the query in name, description or arguments, the best first.

    Rare words count more, words of the name most; a word with a typing error counts a little less.
    """
    texts = {tool.spec.name: _words_of(tool.spec) for tool in tools}
    known = Counter(word for words in texts.values() for word in words)
    wanted = _expanded(_words(query), known)
    scores = {
        name: sum(words.get(word, 0.0) * share * log(1 + len(texts) / known[word]) for word, share in wanted.items())
        for name, words in texts.items()
    }
    found = [tool for tool in tools if scores[tool.spec.name] > 0]
    return sorted(found, key=lambda tool: -scores[tool.spec.name])


class ToolFinder:
    """The tool with which a model finds tools of servers."""

    effects: frozenset[Effect] = frozenset()
    parallel_safe, blocking = True, False
    timeout: float | None = None
    role: ToolRole | None = None

    def __init__(self, hidden: Callable[[], Sequence[Tool]], offer: Callable[[Sequence[str]], None], count: int) -> None:
        """``hidden`` returns the tools that are not offered, ``offer`` offers some; ``count``: tools of servers."""
        self._hidden = hidden
        self._offer = offer
        described = (
            f"Find tools by words. {count} tools of servers are here; only those that you have found can be called. "
            "Say what you want to do, in a few words, before you say that it cannot be done."
        )
        properties = {
            "query": {"type": "string", "description": "what the tool should do, such as: list files of a folder"},
            "limit": {"type": "integer", "minimum": 1, "maximum": MAX_FOUND, "default": DEFAULT_FOUND},
        }
        schema = {"type": "object", "properties": properties, "required": ["query"]}
        self.spec = ToolSpec(FIND_TOOLS, described, schema)

    async def run(self, arguments: Any, context: ToolContext) -> ToolOutcome:
        """Return the tools that fit best, which the next request offers."""
        query = arguments.get("query") if isinstance(arguments, dict) else None
        limit = arguments.get("limit", DEFAULT_FOUND) if isinstance(arguments, dict) else None
        if not isinstance(query, str) or not isinstance(limit, int) or not 1 <= limit <= MAX_FOUND:
            problem = f"query must be a text, and limit a number from 1 to {MAX_FOUND}."
            return failure("invalid_arguments", problem, 'Call it as {"query": "list files"}.')
        found = ranked(query, self._hidden())[:limit]
        if not found:
            advice = "Use other words, or go on with the tools that you have."
            return failure("nothing_found", "No further tool has one of these words.", advice)
        self._offer([tool.spec.name for tool in found])
        lines = [_line(tool.spec) for tool in found]
        return ToolOutcome(True, (Text("\n".join(["You can call these now:", *lines])),))


def _words(text: str) -> list[str]:
    return [word for word in map(str.lower, _WORD.findall(text)) if word not in _STOP_WORDS]


def _words_of(spec: ToolSpec) -> dict[str, float]:
    """Return the words of a tool with their weights."""
    arguments = spec.input_schema.get("properties") or {}
    told = [one.get("description", "") for one in arguments.values() if isinstance(one, dict)]
    weights = dict.fromkeys(_words(" ".join([spec.description, *arguments, *map(str, told)])), 1.0)
    return weights | dict.fromkeys(_words(spec.name), _NAME_WEIGHT)


def _expanded(words: Iterable[str], known: Mapping[str, int]) -> dict[str, float]:
    """Return the known words that those of a query mean, each with the share with which it counts."""
    wanted: dict[str, float] = {}
    for word in words:
        if word in known:
            wanted[word] = 1.0
        for similar, score, _ in process.extract(word, known.keys(), scorer=fuzz.ratio, score_cutoff=_MIN_SIMILARITY):
            wanted[similar] = max(wanted.get(similar, 0.0), score / 125)
    return wanted


def _line(spec: ToolSpec) -> str:
    first = spec.description.strip().partition("\n")[0]
    return f"{spec.name}: {first}"[:MAX_LINE_CHARACTERS]
