"""What a server remembers of its own replies, to know them again when they come back in a request."""

from __future__ import annotations

from typing import Any

from agentnb.testing.ids import canonical


class Memory:
    """Blocks that no seal protects, replies of the Messages wire that were only paused, and what was thought before an item
    of the Responses wire. Thread safe.
    """

    def __init__(self) -> None:
        self._blocks: set[bytes] = set()
        self._paused: set[tuple[bytes, ...]] = set()
        self._thoughts: dict[str, str] = {}

    def sent_block(self, block: dict[str, Any]) -> None:
        """The block went out."""
        self._blocks.add(unmarked(block))

    def knows(self, block: Any) -> bool:
        """Whether it went out like this."""
        return unmarked(block) in self._blocks

    def paused(self, blocks: list[dict[str, Any]]) -> None:
        """A reply of these blocks was paused."""
        self._paused.add(tuple(unmarked(block) for block in blocks))

    def was_paused(self, blocks: list[Any]) -> bool:
        """Whether these blocks end with a reply that was paused."""
        sent = tuple(unmarked(block) for block in blocks)
        return any(sent[len(sent) - len(reply) :] == reply for reply in self._paused.copy() if 0 < len(reply) <= len(sent))

    def thought_led_to(self, thought: str, item: str) -> None:
        """The item with this id went out after the reasoning item with that id."""
        self._thoughts[item] = thought

    def thought_before(self, item: Any) -> str | None:
        """The id of the reasoning item that an item of this id came after."""
        return self._thoughts.get(item) if isinstance(item, str) else None


def unmarked(block: Any) -> bytes:
    """The block as canonical JSON, without what only the cache looks at and without what is not set."""
    if not isinstance(block, dict):
        return canonical(block)
    return canonical({name: value for name, value in block.items() if name != "cache_control" and value is not None})
