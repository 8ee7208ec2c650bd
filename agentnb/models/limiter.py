"""How many calls go to a provider at once: one limiter for each account, in the whole process, whichever loop a call is of."""

from __future__ import annotations

import asyncio
import math
from bisect import insort
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from itertools import count
from threading import RLock
from time import monotonic

MAX_AT_ONCE = 32
"""Calls of one provider that go on at the same time."""
LOOK_AGAIN = 1.0
"""Seconds after which whoever waits looks whether a loop has ended with its places: nobody tells of that."""
MOMENT = 0.001
"""Seconds that are not worth waiting for."""
LONGEST_CLOSED = 3600.0
"""Seconds after which one call asks again, however long the provider asked to wait: the account may have been raised."""


class NoPlace(Exception):
    """A place would take too long. ``seconds``: until it opens, 0 if it is open; ``held``: how long was waited."""

    def __init__(self, seconds: float, held: float) -> None:
        super().__init__(f"no place for {seconds:g} s, after {held:g} s")
        self.seconds = seconds
        self.held = held


@dataclass(eq=False, slots=True)
class _Place:
    """A call that has its place, or waits for it."""

    number: int
    """In the order of coming."""
    loop: asyncio.AbstractEventLoop
    future: asyncio.Future[None]

    def go(self) -> None:
        """Wake it, on its own loop."""
        if not self.future.done():
            self.future.set_result(None)


class Limiter:
    """Lets so many calls in at once, first come, first served. When the provider says that it is too many, half as many, and
    none before the time it asks for has passed; each call that goes well lets one more in again, up to the first number.

    A loop that does not run makes no calls: its places count for nothing, and those of a closed one are given back.
    """

    def __init__(self, most: int = MAX_AT_ONCE, name: str = "the provider") -> None:
        self.name = name
        self._most = most
        self._allowed = most
        self._inside: set[_Place] = set()
        self._closed_until = 0.0
        self._waiting: list[_Place] = []
        self._numbers = count()
        # Re-entrant: whoever is waiting may be swept away as garbage, at any moment, with its loop.
        self._lock = RLock()

    @property
    def allowed(self) -> int:
        """How many calls may go on at once now."""
        return self._allowed

    @property
    def closed_for(self) -> float:
        """Seconds until it opens; 0 if it is open."""
        return max(0.0, self._closed_until - monotonic())

    @asynccontextmanager
    async def place(self, most: float = math.inf, longest: float = math.inf) -> AsyncIterator[float]:
        """Wait for a place, and keep it; gives the seconds that it was held up.

        That is the time in which it was closed, or let fewer in because of a refusal, and not the time in which all places
        were taken. Raises `NoPlace` when that would come to more than ``most``, or it is closed for more than ``longest``.
        """
        mine, held = await self._come(next(self._numbers), most, longest)
        try:
            yield held
        finally:
            self._leave(mine)

    def went_well(self) -> None:
        """A call got its reply."""
        with self._lock:
            self._allowed = min(self._most, self._allowed + 1)
            self._let_in()

    def was_refused(self, seconds: float, asked: float | None = None) -> None:
        """The provider said that it is too many: none goes before the seconds have passed that it ``asked`` for.

        If it asked for none, ``seconds`` close it, unless it is closed already: calls that went together tell one thing.
        """
        now = monotonic()
        with self._lock:
            self._allowed = max(1, self._allowed // 2)
            if asked is not None:
                self._closed_until = max(self._closed_until, now + min(asked, LONGEST_CLOSED))
            elif self._closed_until <= now:
                self._closed_until = now + seconds

    async def _come(self, number: int, most: float, longest: float) -> tuple[_Place, float]:
        held = 0.0
        while True:
            begun, closed, fewer = monotonic(), self.closed_for, self._allowed < self._most
            if closed > longest or (closed and held + closed > most):
                raise NoPlace(closed, held)
            if closed:
                await asyncio.sleep(closed)
                mine = None
            else:
                mine = await self._enter(number, min(LOOK_AGAIN, max(0.0, most - held)) if fewer else LOOK_AGAIN)
            if closed or fewer:
                held += monotonic() - begun
            if mine is not None and not self.closed_for:
                return mine, held
            if mine is not None:
                self._leave(mine)  # when it opens, fewer may be allowed than have come this far
            elif fewer and not closed and held + MOMENT >= most:
                raise NoPlace(0.0, held)

    async def _enter(self, number: int, seconds: float) -> _Place | None:
        """A place, or None if none becomes free in so many seconds."""
        loop = asyncio.get_running_loop()
        mine = _Place(number, loop, loop.create_future())
        with self._lock:
            insort(self._waiting, mine, key=lambda one: one.number)
            self._let_in()
        try:
            if mine not in self._inside:
                await asyncio.wait([mine.future], timeout=seconds)
        except BaseException:
            self._leave(mine)
            raise
        with self._lock:
            if mine in self._inside:
                return mine
            self._leave(mine)
        return None

    def _leave(self, mine: _Place) -> None:
        with self._lock:
            self._inside.discard(mine)
            if mine in self._waiting:
                self._waiting.remove(mine)
            self._let_in()

    def _let_in(self) -> None:
        while self._taken() < self._allowed and self._waiting:
            first = self._waiting.pop(0)
            self._inside.add(first)
            try:
                first.loop.call_soon_threadsafe(first.go)
            except RuntimeError:  # its loop is closed: nobody waits there any more
                self._inside.discard(first)

    def _taken(self) -> int:
        places = list(self._inside)  # what is swept away meanwhile leaves the set
        for one in places:
            if one.loop.is_closed():
                self._inside.discard(one)
        return sum(one.loop.is_running() for one in places)
