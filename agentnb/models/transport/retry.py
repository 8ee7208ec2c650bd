"""Retries: which failures are retried, when, and how often. The SDKs' own retries are off."""

from __future__ import annotations

import asyncio
import math
import random
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from dataclasses import dataclass
from datetime import datetime, timedelta
from time import monotonic

from agentnb.advice import TryAgain
from agentnb.errors import RateLimited
from agentnb.models import defaults
from agentnb.models.model import Retry, StreamItem
from agentnb.models.transport.failure import Failure
from agentnb.models.transport.limiter import CallLimiter, NoPlace

WORTH_TELLING = 1.0
"""Minimum seconds that a wait for other calls must last to be reported."""


class AttemptFailed(Exception):
    """A failed attempt, with its reason. Never leaves `agentnb.models`."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(str(failure.error))
        self.failure = failure


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """The retry schedule: rate limits after 4, 8, 16, 32 and 64 seconds, other transient failures after 2, 4, 8 and 16.

    Each wait is multiplied by a random factor, so that runs that failed together do not retry together. A wait that the
    provider asks for takes precedence; if it is longer than ``longest_wait`` seconds, the call fails at once. The call also
    fails if its waits would exceed ``most_waiting`` seconds, or if the next attempt would begin more than ``most_seconds``
    after the first.
    """

    rate_limit_first: float = defaults.RATE_LIMIT_SECONDS
    rate_limit_retries: int = defaults.RATE_LIMIT_RETRIES
    trouble_first: float = defaults.TROUBLE_SECONDS
    trouble_retries: int = defaults.TROUBLE_RETRIES
    longest_wait: float = defaults.LONGEST_WAIT
    most_waiting: float = defaults.MAX_WAITING
    most_seconds: float = defaults.MAX_RETRY_SECONDS

    def wait(self, failure: Failure, attempt: int, waited: float, draw: float, elapsed: float = 0.0) -> float | None:
        """Return the seconds to wait after this failed attempt, counted from 1; or None to give up.

        ``waited``: seconds of waiting so far; ``elapsed``: seconds since the first attempt began; ``draw``: a random number, 0
        to 1.
        """
        first, most = (
            (self.rate_limit_first, self.rate_limit_retries)
            if failure.is_rate_limit
            else (self.trouble_first, self.trouble_retries)
        )
        if not failure.transient or attempt > most:
            return None
        if failure.retry_after is not None:
            if failure.retry_after > self.longest_wait:
                return None
            seconds = failure.retry_after * (1 + draw / 10) + draw / 2  # never earlier than the provider asked
        else:
            seconds = min(first * 2 ** (attempt - 1) * (0.5 + draw), self.longest_wait)
        in_time = waited + seconds <= self.most_waiting and elapsed + seconds <= self.most_seconds
        return seconds if in_time else None

    def remaining(self, waited: float, elapsed: float) -> float:
        """Return the seconds that a call may still wait for its slot."""
        return max(0.0, min(self.most_waiting - waited, self.most_seconds - elapsed))


async def with_retries(
    attempt: Callable[[], AsyncGenerator[StreamItem]],
    policy: RetryPolicy,
    limiter: CallLimiter,
) -> AsyncGenerator[StreamItem]:
    """Yield the items of the attempts, with a `Retry` between two of them. Raises the `ModelError` of the last attempt.

    Waits occupy no slot in the limiter; a cancellation ends them at once. Time for which the limiter delays a call because
    other calls were refused counts like the call's own waits; before the first attempt it is reported as the `Retry` of
    attempt 0.
    """
    waited, number, begun, is_reported = 0.0, 1, math.inf, False
    last: Failure | None = None
    while True:
        remaining = policy.remaining(waited, monotonic() - begun)
        longest = policy.longest_wait if last or is_reported else min(policy.longest_wait, WORTH_TELLING)
        try:
            async with limiter.place(remaining, longest) as held, aclosing(attempt()) as items:
                waited += held
                begun = min(begun, monotonic() - waited)
                async for item in items:
                    yield item
            limiter.went_well()
            return
        except NoPlace as none:
            waited += none.held
            if none.seconds == 0 or none.seconds > min(policy.longest_wait, remaining - none.held):
                raise (last.error if last else _held_up(limiter, none.seconds, waited)) from None
            is_reported = True
            yield Retry(0, none.seconds, f"{limiter.name} has asked all calls to wait")
            continue
        except AttemptFailed as failed:
            last = failure = failed.failure
        seconds = policy.wait(failure, number, waited, random.random(), monotonic() - begun)
        if failure.is_rate_limit and failure.transient:
            limiter.was_refused(seconds or 0.0, failure.retry_after)
        if seconds is None:
            raise failure.error
        yield Retry(number, seconds, str(failure.error.what), failure.status)
        started = monotonic()
        await asyncio.sleep(seconds)
        waited += monotonic() - started
        number += 1


def _held_up(limiter: CallLimiter, seconds: float, waited: float) -> RateLimited:
    """Return the error of a call that the limiter delayed for too long and that was never sent."""
    if not seconds:
        problem = f"{limiter.name}: too many requests; after {waited:,.0f} s this call was still waiting"
        return RateLimited(problem, TryAgain(lead="Start fewer runs at once, or wait a while and try again"))
    opens = datetime.now().astimezone() + timedelta(seconds=math.ceil(seconds))
    problem = f"{limiter.name}: too many requests; the next call is allowed at {opens:%H:%M:%S} (in {seconds:,.0f} s)"
    return RateLimited(problem, TryAgain(lead="Then try again", rest=", or use another key"))
