"""How many calls go to a provider at once: one limiter for each, in the whole process, whichever event loop a call is of."""

from __future__ import annotations

import asyncio
from bisect import insort
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from itertools import count
from threading import RLock
from time import monotonic

MOST_AT_ONCE = 32
"""Calls of one provider that go on at the same time."""


@dataclass(eq=False, slots=True)
class _Waiting:
    """A call that waits for its place."""

    number: int
    """In the order of coming."""
    loop: asyncio.AbstractEventLoop
    future: asyncio.Future[None]
    has_place: bool = False

    def go(self) -> None:
        """Wake it, on its own loop."""
        if not self.future.done():
            self.future.set_result(None)


class Limiter:
    """Lets so many calls in at once, first come, first served. When the provider says that it is too many, half as many, and
    none before the time it asks for has passed; each call that goes well lets one more in again, up to the first number.
    """

    def __init__(self, most: int = MOST_AT_ONCE) -> None:
        self._most = most
        self._allowed = most
        self._inside = 0
        self._closed_until = 0.0
        self._waiting: list[_Waiting] = []
        self._numbers = count()
        # Re-entrant: whoever is waiting may be swept away as garbage, at any moment, with its loop.
        self._lock = RLock()

    @property
    def allowed(self) -> int:
        """How many calls may go on at once now."""
        return self._allowed

    @asynccontextmanager
    async def place(self) -> AsyncIterator[None]:
        """Wait for a place, and keep it."""
        number = next(self._numbers)
        await self._enter(number)
        while (seconds := self._closed_until - monotonic()) > 0:
            self._leave()  # until it opens, fewer may be allowed than have come this far
            await asyncio.sleep(seconds)
            await self._enter(number)
        try:
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

    async def _enter(self, number: int) -> None:
        loop = asyncio.get_running_loop()
        with self._lock:
            if self._inside < self._allowed:
                self._inside += 1
                return
            mine = _Waiting(number, loop, loop.create_future())
            insort(self._waiting, mine, key=lambda one: one.number)
        try:
            await mine.future
        except BaseException:
            with self._lock:
                if mine.has_place:  # it was let in at the moment it went away
                    self._leave()
                elif mine in self._waiting:
                    self._waiting.remove(mine)
            raise

    def _leave(self) -> None:
        with self._lock:
            self._inside -= 1
            self._let_in()

    def _let_in(self) -> None:
        while self._waiting and self._inside < self._allowed:
            first = self._waiting.pop(0)
            first.has_place = True
            self._inside += 1
            try:
                first.loop.call_soon_threadsafe(first.go)
            except RuntimeError:  # its loop is closed: nobody waits there any more
                first.has_place = False
                self._inside -= 1
