"""A bound on what a server sends in one piece: libraries hold it in memory until it ends, and some never do."""

from __future__ import annotations

from collections.abc import AsyncIterator
from functools import cache
from typing import Any

MAX_PIECE = 64_000_000
"""Bytes of the longest line of a stream, and of the longest body of anything else."""


class TooMuch(Exception):
    """The server sent more in one piece than any reply has."""


async def bound(response: Any) -> None:
    """Bound the body of a response: the hook of every client. One that is compressed is bounded as a whole."""
    is_stream = "event-stream" in response.headers.get("content-type", "") and "content-encoding" not in response.headers
    response.stream = _body_class()(response.stream, is_stream)


@cache
def _body_class() -> Any:
    import httpx2

    class Body(httpx2.AsyncByteStream):
        """A body whose pieces are bounded, or with ``lines`` its lines."""

        def __init__(self, body: Any, lines: bool) -> None:
            self._body = body
            self._lines = lines

        async def __aiter__(self) -> AsyncIterator[bytes]:
            length = 0
            async for data in self._body:
                end = data.rfind(b"\n") if self._lines else -1
                length = len(data) - end - 1 if end >= 0 else length + len(data)
                if length > MAX_PIECE:
                    raise TooMuch
                yield data

        async def aclose(self) -> None:
            await self._body.aclose()

    return Body
