"""Retries, in one place: what is tried again, when, and how often. The SDKs' own are off."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from dataclasses import dataclass
from time import monotonic

from agentnb.core.events import Delta
from agentnb.models.failure import Failure
from agentnb.models.limiter import Limiter
from agentnb.models.model import Reply, Retry


class AttemptFailed(Exception):
    """An attempt failed, for this reason. Never leaves the models."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(str(failure.error))
        self.failure = failure


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """What is tried again: rate limits after 4, 8, 16, 32 and 64 seconds, other trouble that may pass after 2, 4, 8 and 16,
    each times a random factor, so that runs that failed together do not come back together.

    What the provider asks to wait goes before that; if it asks for more than ``longest_wait`` seconds the call fails at once.
    It fails too when the waits would come to more than ``most_waiting`` seconds, or when the next attempt would begin more
    than ``most_seconds`` after the first.
    """

    rate_limit_first: float = 4.0
    rate_limit_retries: int = 5
    trouble_first: float = 2.0
    trouble_retries: int = 4
    longest_wait: float = 120.0
    most_waiting: float = 300.0
    most_seconds: float = 600.0

    def wait(self, failure: Failure, attempt: int, waited: float, draw: float, elapsed: float = 0.0) -> float | None:
        """Seconds to wait after this attempt, counted from 1, failed; None to give up.

        ``waited``: seconds of waiting so far; ``elapsed``: seconds since the first attempt began; ``draw``: a random number
        from 0 to 1.
        """
        first, most = (
            (self.rate_limit_first, self.rate_limit_retries)
            if failure.is_rate_limit
            else (self.trouble_first, self.trouble_retries)
        )
        if not failure.passing or attempt > most:
            return None
        if failure.retry_after is not None:
            if failure.retry_after > self.longest_wait:
                return None
            seconds = failure.retry_after * (1 + draw / 10) + draw / 2  # never before it was asked
        else:
            seconds = min(first * 2 ** (attempt - 1) * (0.5 + draw), self.longest_wait)
        in_time = waited + seconds <= self.most_waiting and elapsed + seconds <= self.most_seconds
        return seconds if in_time else None


async def with_retries(
    attempt: Callable[[], AsyncGenerator[Delta | Reply]],
    policy: RetryPolicy,
    limiter: Limiter,
) -> AsyncGenerator[Delta | Retry | Reply]:
    """What the attempts yield, with a `Retry` between one and the next. Raises the `ModelError` of the last.

    Waits hold no place in the limiter; a cancellation ends them at once.
    """
    waited, number, begun = 0.0, 1, monotonic()
    while True:
        try:
            async with limiter.place(), aclosing(attempt()) as items:
                async for item in items:
                    yield item
            limiter.went_well()
            return
        except AttemptFailed as failed:
            failure = failed.failure
        seconds = policy.wait(failure, number, waited, random.random(), monotonic() - begun)
        if failure.is_rate_limit and failure.passing:
            limiter.was_refused(seconds or 0.0)
        if seconds is None:
            raise failure.error
        yield Retry(number, seconds, str(failure.error.what), failure.status)
        started = monotonic()
        await asyncio.sleep(seconds)
        waited += monotonic() - started
        number += 1
