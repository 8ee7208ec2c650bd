"""Prompt caches: which part of a request a provider has cached from an earlier request."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import Any, NamedTuple

from agentnb.core.messages import JsonObject
from agentnb.core.usage import Usage
from agentnb.testing.ids import canonical
from agentnb.testing.replies.lines import tokens

LOOK_BACK = 20
"""Number of blocks before a marker that the Messages API searches for a cached prefix."""


class Piece(NamedTuple):
    """A block of a request. Providers cache blocks in the order tools, system, messages."""

    content: bytes
    marked: bool


class Count(NamedTuple):
    """The tokens of a request, and the prefixes to cache if it is answered."""

    usage: Usage
    beginnings: frozenset[bytes]


class PromptCache:
    """The cached prefixes of earlier requests. Thread-safe. Every prefix counts, however short, and nothing expires."""

    def __init__(self) -> None:
        self._written: set[bytes] = set()

    def keep(self, count: Count) -> None:
        """Cache the prefixes of an answered request, so that later requests can read them."""
        self._written.update(count.beginnings)

    def of_messages(self, body: JsonObject) -> Count:
        """Count the tokens of a Messages API request, which reads and writes the cache up to its ``cache_control`` markers."""
        pieces = list(_pieces_of_messages(body))
        marks = [index for index, piece in enumerate(pieces) if piece.marked]
        seen = {index - back for index in marks for back in range(LOOK_BACK + 1)}
        return self._count(body.get("model"), pieces, marks, seen)

    def automatic(self, body: JsonObject) -> Count:
        """Count the tokens of a request to the other APIs, which read any prefix sent before."""
        items = body.get("messages", body.get("input")) or []
        start = [body.get("instructions"), *(body.get("tools") or [])]
        blocks = [*start, *(items if isinstance(items, list) else [items])]
        pieces = [Piece(canonical(block), True) for block in blocks if block is not None]
        everywhere = range(len(pieces))
        count = self._count(body.get("model"), pieces, list(everywhere), set(everywhere))
        return count._replace(usage=Usage(count.usage.input, cache_read=count.usage.cache_read, cache_write=0))

    def _count(self, model: Any, pieces: list[Piece], marks: list[int], seen: set[int]) -> Count:
        chain = hashlib.blake2b(canonical(model), digest_size=16)
        total, read, sums, digests = 0, 0, [], []
        for index, piece in enumerate(pieces):
            chain.update(piece.content)
            digests.append(chain.digest())
            total += tokens(piece.content.decode())
            sums.append(total)
            if index in seen and digests[-1] in self._written:
                read = total
        written = max((sums[index] for index in marks), default=0)
        usage = Usage(total, cache_read=read, cache_write=max(0, written - read))
        return Count(usage, frozenset(digests[index] for index in marks))


def _pieces_of_messages(body: JsonObject) -> Iterator[Piece]:
    blocks = [("tool", tool) for tool in body.get("tools") or []]
    blocks += [("system", block) for block in _blocks(body.get("system"))]
    # Another choice of tools or way of thinking invalidates the messages, but not the blocks before them.
    blocks += [("choice", {name: body[name]}) for name in ("tool_choice", "thinking") if name in body]
    for message in body.get("messages") or []:
        blocks += [(message["role"], block) for block in _blocks(message["content"])]
    for index, (section, block) in enumerate(blocks):
        plain = {name: value for name, value in block.items() if name != "cache_control"}
        last = index == len(blocks) - 1 and body.get("cache_control") is not None
        yield Piece(canonical([section, plain]), last or block.get("cache_control") is not None)


def _blocks(content: Any) -> list[JsonObject]:
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    return content or []
