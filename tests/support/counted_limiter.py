"""Limiters that count the calls which wait for a place or hold one."""

from __future__ import annotations

import math
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractContextManager, asynccontextmanager, contextmanager

from agentnb.models.defaults import MAX_AT_ONCE
from agentnb.models.transport.connections import Account, CallLimits
from agentnb.models.transport.limiter import CallLimiter, Limiter
from agentnb.runtime.host.host import Host, use_host


class CountedLimiter(Limiter):
    """A limiter that counts its calls."""

    def __init__(self, most: int = MAX_AT_ONCE, name: str = "the provider") -> None:
        super().__init__(most, name)
        self.calls = 0
        """Calls that wait for a place or hold one."""
        self._counting = threading.Lock()

    @asynccontextmanager
    async def place(self, most: float = math.inf, longest: float = math.inf) -> AsyncIterator[float]:
        with self._counting:
            self.calls += 1
        try:
            async with super().place(most, longest) as held:
                yield held
        finally:
            with self._counting:
                self.calls -= 1


def limited_by(make: Callable[[Account], CallLimiter]) -> AbstractContextManager[None]:
    """Have the calls in this block, and those of runs that start in it, limited by what is made here."""
    return use_host(Host(limits=CallLimits(make)))


@contextmanager
def counted_limiters(most: int = MAX_AT_ONCE) -> Iterator[list[CountedLimiter]]:
    """Count the calls of every account; yields the limiters, one for each account that was called."""
    limiters: list[CountedLimiter] = []

    def make(account: Account) -> CountedLimiter:
        limiters.append(CountedLimiter(most, account.provider))
        return limiters[-1]

    with limited_by(make):
        yield limiters
