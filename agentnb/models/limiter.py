"""How many calls go to a provider at once: one limiter for each, in the whole process, whichever event loop a call is of."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from threading import Lock
from time import monotonic

MOST_AT_ONCE = 32
"""Calls of one provider that go on at the same time."""


class Limiter:
    """Lets so many calls in at once. When the provider says that it is too many, half as many, and none before the time it
    asks for has passed; each call that goes well lets one more in again, up to the first number.
    """

    def __init__(self, most: int = MOST_AT_ONCE) -> None:
        self._most = most
        self._allowed = most
        self._inside = 0
        self._closed_until = 0.0
        self._waiting: deque[tuple[asyncio.AbstractEventLoop, asyncio.Future[None]]] = deque()
        self._lock = Lock()

    @property
    def allowed(self) -> int:
        """How many calls may go on at once now."""
        return self._allowed

    @asynccontextmanager
    async def place(self) -> AsyncIterator[None]:
        """Wait for a place, and keep it."""
        await self._enter()
        try:
            while (seconds := self._closed_until - monotonic()) > 0:  # noqa: ASYNC110  # a time that others may put off
                await asyncio.sleep(seconds)
            yield
        finally:
            self._leave()

    def went_well(self) -> None:
        """A call got its reply."""
        with self._lock:
            self._allowed = min(self._most, self._allowed + 1)
            self._let_in()

    def was_refused(self, seconds: float) -> None:
        """The provider said that it is too many; none goes before ``seconds`` have passed."""
        with self._lock:
            self._allowed = max(1, self._allowed // 2)
            self._closed_until = max(self._closed_until, monotonic() + seconds)

    async def _enter(self) -> None:
        loop = asyncio.get_running_loop()
        with self._lock:
            if self._inside < self._allowed and not self._waiting:
                self._inside += 1
                return
            future: asyncio.Future[None] = loop.create_future()
            self._waiting.append((loop, future))
        try:
            await future
        except BaseException:
            with self._lock:
                mine = (loop, future)
                if mine in self._waiting:
                    self._waiting.remove(mine)
                    raise
            self._leave()  # it was let in at the moment it went away
            raise

    def _leave(self) -> None:
        with self._lock:
            self._inside -= 1
            self._let_in()

    def _let_in(self) -> None:
        while self._waiting and self._inside < self._allowed:
            loop, future = self._waiting.popleft()
            try:
                loop.call_soon_threadsafe(_let, future)
            except RuntimeError:  # its loop is closed: nobody waits there any more
                continue
            self._inside += 1


def _let(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)
