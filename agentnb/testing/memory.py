"""A server's memory of its own replies, for recognizing them in later requests."""

from __future__ import annotations

from typing import Any

from agentnb.testing.ids import canonical


class Memory:
    """Records blocks that have no seal, paused replies of the Messages API, and which reasoning preceded each item of the
    Responses API. Thread-safe.
    """

    def __init__(self) -> None:
        self._blocks: set[bytes] = set()
        self._paused: set[tuple[bytes, ...]] = set()
        self._thoughts: dict[str, str] = {}

    def sent_block(self, block: dict[str, Any]) -> None:
        """Record a block that has been sent."""
        self._blocks.add(plain_block(block))

    def knows(self, block: Any) -> bool:
        """Return whether this block was sent unchanged."""
        return plain_block(block) in self._blocks

    def record_pause(self, blocks: list[dict[str, Any]]) -> None:
        """Record a paused reply consisting of these blocks."""
        self._paused.add(tuple(plain_block(block) for block in blocks))

    def was_paused(self, blocks: list[Any]) -> bool:
        """Return whether these blocks end with a paused reply."""
        sent = tuple(plain_block(block) for block in blocks)
        return any(sent[len(sent) - len(reply) :] == reply for reply in self._paused.copy() if 0 < len(reply) <= len(sent))

    def thought_led_to(self, thought: str, item: str) -> None:
        """Record that the item with this id was sent after this reasoning item."""
        self._thoughts[item] = thought

    def thought_before(self, item: Any) -> str | None:
        """Return the id of the reasoning item sent before this item."""
        return self._thoughts.get(item) if isinstance(item, str) else None


def plain_block(block: Any) -> bytes:
    """Encode the block as canonical JSON, without cache markers and unset fields."""
    if not isinstance(block, dict):
        return canonical(block)
    return canonical({name: value for name, value in block.items() if name != "cache_control" and value is not None})
