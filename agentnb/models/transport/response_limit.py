"""A limit on unbroken data from a server: libraries keep it in memory until it ends, and in some streams it never does."""

from __future__ import annotations

from collections.abc import AsyncIterator
from functools import cache
from typing import Any

MAX_PIECE = 64_000_000
"""Maximum number of bytes in a line of a stream, or in any other body."""


class TooMuch(Exception):
    """The server sent a piece larger than any reply would contain."""


async def bound(response: Any) -> None:
    """Limit the body of a response; every client uses this as a hook. A compressed body is limited as a whole."""
    is_stream = "event-stream" in response.headers.get("content-type", "") and "content-encoding" not in response.headers
    response.stream = _body_class()(response.stream, is_stream)


@cache
def _body_class() -> Any:
    import httpx2

    class Body(httpx2.AsyncByteStream):
        """A body with a limit on its size or, if ``lines`` is set, on the size of each line."""

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
