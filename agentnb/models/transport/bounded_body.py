"""A bound on what a server sends in one piece: libraries hold it in memory until it ends, and some never do."""

from __future__ import annotations

from collections.abc import AsyncIterable, AsyncIterator
from functools import cache
from typing import Any

MAX_PIECE = 64_000_000
"""Bytes of the longest line of a stream, and of the longest body of anything else."""
MAX_HEAD = 1_000
"""Most pieces that are kept of a body without an event."""


class TooMuch(Exception):
    """The server sent more in one piece than any reply has."""


async def bound(response: Any) -> None:
    """Bound the body of a response: the hook of every client. One that is compressed is bounded as a whole."""
    is_stream = "event-stream" in response.headers.get("content-type", "") and "content-encoding" not in response.headers
    response.stream = _body_class()(response.stream, is_stream)


async def bounded(body: AsyncIterable[bytes], *, lines: bool, head: list[bytes] | None = None) -> AsyncIterator[bytes]:
    """Yield the pieces of a body; raise `TooMuch` where it becomes too long, or with ``lines`` where one of its lines does.

    ``head`` gets the pieces of a body in which no event of a stream comes, and is empty for any other.
    """
    length = 0
    async for data in body:
        end = data.rfind(b"\n") if lines else -1
        length = len(data) - end - 1 if end >= 0 else length + len(data)
        if length > MAX_PIECE:
            raise TooMuch
        if head is not None:
            head.append(data)
            if b"data:" in data or len(head) > MAX_HEAD:
                head.clear()
                head = None
        yield data


@cache
def _body_class() -> Any:
    import httpx2

    class Body(httpx2.AsyncByteStream):
        def __init__(self, body: Any, lines: bool) -> None:
            self._body = body
            self._lines = lines
            self.head: list[bytes] = []

        def __aiter__(self) -> AsyncIterator[bytes]:
            return bounded(self._body, lines=self._lines, head=self.head)

        async def aclose(self) -> None:
            await self._body.aclose()

    return Body
