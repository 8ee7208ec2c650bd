"""Idle timeout of a reply. Keep-alives do not reset it: the reply must progress; an open connection is not enough."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from typing import Any

OF_A_REPLY = ("message_", "content_block_", "response.")
"""Prefixes of the events of a reply, in APIs with named events."""
SIGNS_OF_LIFE = frozenset({"response.in_progress", "response.queued"})
"""Keep-alives among these events."""
PLACES = ("index", "output_index", "content_index", "summary_index", "item_id")
"""Fields that identify the part of a reply that an event belongs to."""
NAMES = frozenset({"type", "role", "id", "name", "index"})
"""Fields of a delta that are not content."""
AFTER_THE_END = 3.0
"""Seconds to wait after the end of a reply, for its usage and the end of its stream."""
MAX_SIGNS = 100_000
"""Maximum number of distinct events without content to count as progress."""
ENDED: Any = object()


class IdleTimeout(Exception):
    """No part of the reply arrived for this number of seconds. Other data from the server does not count."""

    def __init__(self, seconds: float) -> None:
        super().__init__(f"no part of the reply for {seconds:g} s")
        self.seconds = seconds


async def until_idle(
    chunks: AsyncGenerator[Any], seconds: float, ended: Callable[[], bool] = lambda: False
) -> AsyncGenerator[Any]:
    """Yield the chunks; raise `IdleTimeout` after ``seconds`` without any part of the reply.

    Once the reply has ``ended``, the wait is short: some servers leave the stream open. The time that the consumer spends on a
    chunk does not count. Comments in the stream, which the libraries skip, yield no chunk and do not reset the timeout.
    """
    clock, remaining, progress = asyncio.get_running_loop().time, seconds, Progress()
    while True:
        asked, remaining = clock(), min(remaining, AFTER_THE_END) if ended() else remaining
        try:
            async with asyncio.timeout(remaining) as limit:
                chunk = await anext(chunks, ENDED)
        except TimeoutError:
            if not limit.expired():
                raise
            raise IdleTimeout(seconds) from None
        if chunk is ENDED:
            return
        remaining = seconds if progress.is_made_by(chunk) else remaining - (clock() - asked)
        if remaining <= 0:
            raise IdleTimeout(seconds)
        yield chunk


class Progress:
    """Recognizes progress of a reply: content, or a new event."""

    def __init__(self) -> None:
        self._seen: set[str] = set()

    def is_made_by(self, chunk: Any) -> bool:
        """Return whether the chunk belongs to the reply and does not merely repeat an event."""
        try:
            sign = _sign(chunk)
        except RecursionError:  # nesting that is refused elsewhere
            return True
        if not sign:
            return sign is None
        if sign in self._seen or len(self._seen) >= MAX_SIGNS:
            return False
        self._seen.add(sign)
        return True


def _sign(chunk: Any) -> str | None:
    """Return a key for a chunk: None if it has content, or an empty string if it does not belong to the reply."""
    if not isinstance(chunk, dict):
        return ""
    if isinstance(choices := chunk.get("choices"), list):
        choices = [choice for choice in choices if isinstance(choice, dict)]
        if any(_has_content(choice.get("delta")) for choice in choices):
            return None
        return repr(choices)[:1000] if any(map(_says_more, choices)) else ""
    kind, delta = chunk.get("type"), chunk.get("delta")
    if not isinstance(kind, str) or not kind.startswith(OF_A_REPLY) or kind in SIGNS_OF_LIFE:
        return ""
    if "delta" in chunk and (kind != "message_delta" or not _says(delta)):
        return None if _says(delta) else ""
    return repr([kind, delta, *map(chunk.get, PLACES)])[:1000]


def _has_content(value: Any) -> bool:
    if isinstance(value, dict):
        return any(_has_content(inner) for name, inner in value.items() if name not in NAMES)
    return any(map(_has_content, value)) if isinstance(value, list) else isinstance(value, str) and value != ""


def _says_more(choice: dict[str, Any]) -> bool:
    return bool(choice.get("finish_reason")) or _says(choice.get("delta"))


def _says(delta: Any) -> bool:
    """Return whether the delta has content: some servers send empty ones to keep a connection open."""
    if isinstance(delta, dict):
        return any(value for name, value in delta.items() if name not in ("type", "role"))
    return bool(delta)
