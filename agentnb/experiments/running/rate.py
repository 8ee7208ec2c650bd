"""Rate limits shared by all worker processes: when one is refused for too many requests, all slow down."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from agentnb.models.defaults import MAX_AT_ONCE
from agentnb.models.transport.connections import Account, CallLimits
from agentnb.models.transport.limiter import Limiter

Refusal: TypeAlias = tuple[Account, float, float | None]
"""The account whose provider refused a call, the seconds to wait, and the seconds that the provider asked for."""


class SharedLimiter(Limiter):
    """Limiter for an account in one of several processes, each of which has a share of the concurrent calls."""

    def __init__(self, account: Account, processes: int, tell: Callable[[Refusal], None]) -> None:
        """``tell``: forwards a refusal to the other processes."""
        super().__init__(max(1, MAX_AT_ONCE // processes), account.provider)
        self._account = account
        self._tell = tell

    def was_refused(self, seconds: float, asked: float | None = None) -> None:
        """Record a refusal for too many requests, here and in the other processes."""
        super().was_refused(seconds, asked)
        self._tell((self._account, seconds, asked))


class SharedLimits:
    """The limiters of a worker process."""

    def __init__(self, processes: int, tell: Callable[[Refusal], None]) -> None:
        self._processes = processes
        self._tell = tell
        self._limiters: dict[Account, SharedLimiter] = {}
        self.limits = CallLimits(self._limiter)

    def _limiter(self, account: Account) -> SharedLimiter:
        # Atomic: calls and refusals arrive on different threads.
        return self._limiters.setdefault(account, SharedLimiter(account, self._processes, self._tell))

    def take(self, refusal: Refusal) -> None:
        """Record a refusal that another process received."""
        account, seconds, asked = refusal
        Limiter.was_refused(self._limiter(account), seconds, asked)
