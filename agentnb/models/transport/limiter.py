"""Limits on concurrent calls to a provider: one limiter per account, shared across the process and all its event loops."""

from __future__ import annotations

import asyncio
import math
from bisect import insort
from collections.abc import AsyncIterator, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from dataclasses import dataclass
from itertools import count
from threading import RLock
from time import monotonic
from typing import Protocol

from agentnb.models.defaults import LONGEST_CLOSED, MAX_AT_ONCE

LOOK_AGAIN = 1.0
"""Seconds after which a waiting call checks whether an event loop ended while holding slots, since nothing signals that."""
MOMENT = 0.001
"""A time in seconds that is too short to wait for."""


class NoPlace(Exception):
    """No slot became free in time. ``seconds``: time until the limiter opens, 0 if it is open; ``held``: seconds held up so
    far.
    """

    def __init__(self, seconds: float, held: float) -> None:
        super().__init__(f"no place for {seconds:g} s, after {held:g} s")
        self.seconds = seconds
        self.held = held


class CallLimiter(Protocol):
    """A limit on the calls of one account: a `Limiter`, or any object with these methods, such as one shared by processes."""

    @property
    def name(self) -> str:
        """Name for messages to the person: the provider."""

    def place(self, most: float = math.inf, longest: float = math.inf) -> AbstractAsyncContextManager[float]:
        """Wait for a slot and hold it; yield the seconds that the call was held up.

        Raises `NoPlace` if these seconds would exceed ``most``, or if the limiter is closed for more than ``longest`` seconds.
        """

    def went_well(self) -> None:
        """Record a successful call."""

    def was_refused(self, seconds: float, asked: float | None = None) -> None:
        """Record a refusal for too many requests. ``asked``: seconds that the provider asked to wait, or None."""


@dataclass(eq=False, slots=True)
class _Place:
    """The slot of a call, held or awaited."""

    number: int
    """Order of arrival."""
    loop: asyncio.AbstractEventLoop
    future: asyncio.Future[None]

    def go(self) -> None:
        """Wake the call, on its own event loop."""
        if not self.future.done():
            self.future.set_result(None)


class Limiter:
    """A limit on concurrent calls, first come, first served.

    A refusal for too many requests halves the limit and closes it for the seconds that the provider asks for; each successful
    call raises it by one, up to the initial limit.
    An event loop that does not run makes no calls: its slots are not counted, and those of a closed loop are released.
    """

    def __init__(self, most: int = MAX_AT_ONCE, name: str = "the provider") -> None:
        self.name = name
        self._most = most
        self._allowed = most
        self._inside: set[_Place] = set()
        self._closed_until = 0.0
        self._waiting: list[_Place] = []
        self._numbers = count()
        # Re-entrant: a waiting call may be garbage-collected with its event loop at any moment, and then takes the lock too.
        self._lock = RLock()

    @property
    def allowed(self) -> int:
        """Maximum concurrent calls now."""
        return self._allowed

    @property
    def is_full(self) -> bool:
        """True if a call would have to wait for another to end."""
        with self._lock:
            return bool(self._waiting) or self._count_used() >= self._allowed

    @property
    def closed_for(self) -> float:
        """Seconds until the limiter opens; 0 if it is open."""
        return max(0.0, self._closed_until - monotonic())

    @asynccontextmanager
    async def place(self, most: float = math.inf, longest: float = math.inf) -> AsyncIterator[float]:
        """Wait for a slot and hold it; yield the seconds that the call was held up.

        These are the seconds in which the limiter was closed, or let fewer calls in after a refusal; waiting while all slots
        are occupied does not count. Raises `NoPlace` if these seconds would exceed ``most``, or if the limiter is closed for
        more than ``longest``.
        """
        mine, held = await self._come(next(self._numbers), most, longest)
        try:
            yield held
        finally:
            self._leave(mine)

    @contextmanager
    def place_at_once(self) -> Iterator[None]:
        """Hold a slot without waiting, even if all are occupied."""
        loop = asyncio.get_running_loop()
        mine = _Place(next(self._numbers), loop, loop.create_future())
        with self._lock:
            self._inside.add(mine)
        try:
            yield
        finally:
            self._leave(mine)

    def went_well(self) -> None:
        """Record a successful call and raise the limit by one."""
        with self._lock:
            self._allowed = min(self._most, self._allowed + 1)
            self._let_in()

    def was_refused(self, seconds: float, asked: float | None = None) -> None:
        """Record a refusal for too many requests: halve the limit and close it for the seconds that the provider ``asked`` for.

        Without ``asked``, close for ``seconds``, unless already closed: concurrent calls report the same refusal.
        """
        at = monotonic()
        with self._lock:
            self._allowed = max(1, self._allowed // 2)
            if asked is not None:
                self._closed_until = max(self._closed_until, at + min(asked, LONGEST_CLOSED))
            elif self._closed_until <= at:
                self._closed_until = at + seconds

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
                self._leave(mine)  # when it reopens, fewer calls may be allowed than have got this far
            elif fewer and not closed and held + MOMENT >= most:
                raise NoPlace(0.0, held)

    async def _enter(self, number: int, seconds: float) -> _Place | None:
        """Acquire a slot, or return None if none becomes free within ``seconds``."""
        loop = asyncio.get_running_loop()
        mine = _Place(number, loop, loop.create_future())
        with self._lock:
            insort(self._waiting, mine, key=lambda call: call.number)
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
        while self._count_used() < self._allowed and self._waiting:
            first = self._waiting.pop(0)
            self._inside.add(first)
            try:
                first.loop.call_soon_threadsafe(first.go)
            except RuntimeError:  # its event loop is closed, and the call with it
                self._inside.discard(first)

    def _count_used(self) -> int:
        places = list(self._inside)  # a copy: garbage-collected calls may leave the set at any time
        for holder in places:
            if holder.loop.is_closed():
                self._inside.discard(holder)
        return sum(holder.loop.is_running() for holder in places)
