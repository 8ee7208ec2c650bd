"""Retries: conditions, times and limits."""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncIterator
from itertools import product
from typing import NamedTuple

import pytest
from fake_time import Clock, fake_clock, run_at_once
from free_places import free_places
from hypothesis import given
from hypothesis import strategies as st
from property_settings import AT_NIGHT, examples, size

from agentnb.core.log.events import TextDelta
from agentnb.core.messages import Message, Text
from agentnb.display.texts.notebook_commands import error_in_notebook
from agentnb.errors import ProviderTrouble, RateLimited, RequestRefused
from agentnb.models.model import Reply, Retry
from agentnb.models.transport import retry
from agentnb.models.transport.failure import Failure
from agentnb.models.transport.limiter import LOOK_AGAIN, Limiter
from agentnb.models.transport.retry import AttemptFailed, RetryPolicy, with_retries

POLICY = RetryPolicy()
LIMITED = Failure(RateLimited("too many"), transient=True, status=429)
TROUBLE = Failure(ProviderTrouble("overloaded"), transient=True, status=529)
CUT_OFF = Failure(ProviderTrouble("cut off"), transient=True)
REFUSED = Failure(RequestRefused("wrong"), transient=False, status=400)
DONE = Reply(Message("assistant", (Text("Done."),)))


def asked(seconds: float, status: int = 429) -> Failure:
    return Failure(RateLimited("too many"), transient=True, status=status, retry_after=seconds)


def waits(failure: Failure, draw: float = 0.5, policy: RetryPolicy = POLICY) -> list[float]:
    """Return the waits of a call whose attempts all fail like this."""
    told: list[float] = []
    while (seconds := policy.wait(failure, len(told) + 1, sum(told), draw)) is not None:
        told.append(seconds)
    return told


@pytest.mark.req("R0.78", "K0.12")
def test_rate_limit_is_retried_five_times_with_doubling_waits() -> None:
    assert waits(LIMITED) == [4, 8, 16, 32, 64]
    assert waits(LIMITED, draw=0.0) == [2, 4, 8, 16, 32]
    assert waits(LIMITED, draw=1.0) == [6, 12, 24, 48, 96]


@pytest.mark.req("R2.40")
def test_other_transient_failures_get_five_attempts_with_doubling_waits(subtests: pytest.Subtests) -> None:
    for name, failure in {"529": TROUBLE, "network": CUT_OFF}.items():
        with subtests.test(name):
            assert waits(failure) == [2, 4, 8, 16]
            assert waits(failure, draw=0.0) == [1, 2, 4, 8]
            assert waits(failure, draw=1.0) == [3, 6, 12, 24]


@pytest.mark.req("R2.40")
def test_permanent_failure_is_not_retried() -> None:
    assert waits(REFUSED) == []
    quota = Failure(RateLimited("no credit"), transient=False, status=429, retry_after=1.0)
    assert waits(quota) == []


@pytest.mark.req("R2.40")
def test_provider_wait_overrides_ours_and_is_never_shortened(subtests: pytest.Subtests) -> None:
    for seconds, draw in product([0.0, 0.25, 7.0, 120.0], [0.0, 0.5, 1.0]):
        with subtests.test(seconds=seconds, draw=draw):
            for status in (429, 503):
                told = POLICY.wait(asked(seconds, status), 1, 0.0, draw)
                assert told is not None and seconds <= told <= seconds * 1.1 + 0.5


@pytest.mark.req("R2.40", "K0.12")
def test_provider_wait_above_the_cap_fails_at_once() -> None:
    assert waits(asked(120.1)) == [] == waits(asked(1e300)) == waits(asked(math.inf))
    assert waits(asked(11), policy=RetryPolicy(longest_wait=10)) == []


@pytest.mark.req("R2.40", "K0.12")
def test_call_fails_when_its_waits_would_exceed_the_total() -> None:
    assert waits(asked(100), draw=0.0) == [100, 100, 100]
    assert POLICY.wait(LIMITED, 5, 236.0, 0.5) == 64
    assert POLICY.wait(LIMITED, 5, 236.1, 0.5) is None


def test_calls_failing_together_retry_at_different_times() -> None:
    assert POLICY.wait(LIMITED, 1, 0.0, 0.1) != POLICY.wait(LIMITED, 1, 0.0, 0.2)
    assert POLICY.wait(asked(8), 1, 0.0, 0.1) != POLICY.wait(asked(8), 1, 0.0, 0.2)


numbers = st.floats(0, 1e6)
failures = st.builds(
    Failure,
    st.just(ProviderTrouble("trouble")),
    st.booleans(),
    st.none() | st.integers(300, 700) | st.just(429),
    st.none() | st.floats(0),
)
policies = st.builds(RetryPolicy, numbers, st.integers(0, 30), numbers, st.integers(0, 30), numbers, numbers)


@pytest.mark.req("K0.12")
@examples(300)
@given(policies, st.lists(st.tuples(failures, st.floats(0, 1)), min_size=70, max_size=70))
def test_attempts_and_waits_are_bounded_for_any_failures(policy: RetryPolicy, told: list[tuple[Failure, float]]) -> None:
    waited, attempt = 0.0, 0
    for failure, draw in told:
        attempt += 1
        seconds = policy.wait(failure, attempt, waited, draw)
        if seconds is None:
            break
        assert seconds >= (failure.retry_after or 0) and failure.transient
        assert seconds <= policy.longest_wait * 1.1 + 0.5
        waited += seconds
    assert attempt <= 1 + max(policy.rate_limit_retries, policy.trouble_retries)
    assert waited <= policy.most_waiting


# Outcomes


class Attempts:
    """Attempts that fail like this, each after some text; then a successful one."""

    def __init__(self, *failures: Failure) -> None:
        self.failures = list(failures)
        self.made = 0
        self.closed = 0

    async def __call__(self) -> AsyncIterator[object]:
        self.made += 1
        try:
            yield TextDelta(f"word {self.made}")
            if self.failures:
                raise AttemptFailed(self.failures.pop(0))
            yield DONE
        finally:
            self.closed += 1


def heard(attempts: Attempts, policy: RetryPolicy, limiter: Limiter | None = None, clock: Clock | None = None) -> list[object]:
    """Return the items of a call, with a final error last; optionally by this clock."""
    told: list[object] = []

    async def listen() -> None:
        stream = with_retries(attempts, policy, limiter or Limiter())  # type: ignore[arg-type]
        async for item in stream:
            told.append(item)  # noqa: PERF401  # what comes before an error is wanted too

    try:
        asyncio.run(listen()) if clock is None else run_at_once(clock, listen())
    except RateLimited as error:
        told.append(error)
    return told


@pytest.mark.req("R2.40")
def test_each_retried_attempt_is_reported_with_its_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retry.random, "random", lambda: 0.5)
    policy = RetryPolicy(rate_limit_first=0.002, trouble_first=0.001)
    items = heard(Attempts(LIMITED, TROUBLE, CUT_OFF), policy)
    assert [item for item in items if isinstance(item, Retry)] == [
        Retry(1, 0.002, "too many", 429),
        Retry(2, 0.002, "overloaded", 529),
        Retry(3, 0.004, "cut off", None),
    ]
    assert [item.text for item in items if isinstance(item, TextDelta)] == ["word 1", "word 2", "word 3", "word 4"]
    assert items[-1] == DONE


@pytest.mark.req("K0.12", "KX.3")
def test_last_failure_is_raised_without_a_retry_event() -> None:
    attempts, limiter = Attempts(*[LIMITED] * 9), Limiter()
    items = heard(attempts, RetryPolicy(rate_limit_first=0.0001, rate_limit_retries=2), limiter)
    assert (attempts.made, attempts.closed) == (3, 3)
    assert [type(item) for item in items] == [TextDelta, Retry, TextDelta, Retry, TextDelta, RateLimited]
    assert items[-1] is LIMITED.error


@pytest.mark.req("K0.12")
def test_total_wait_counts_the_actual_waiting_time(monkeypatch: pytest.MonkeyPatch) -> None:
    attempts = Attempts(*[LIMITED] * 99)
    policy = RetryPolicy(rate_limit_first=4, rate_limit_retries=99, longest_wait=2, most_waiting=10)
    items = heard(attempts, policy, clock=fake_clock(monkeypatch))
    assert 2 <= attempts.made <= 6 and isinstance(items[-1], RateLimited)


@pytest.mark.req("R0.78")
def test_retry_wait_is_cancelled_at_once_and_holds_no_slot() -> None:
    limiter = Limiter(1)

    async def stopped() -> None:
        stream = with_retries(Attempts(TROUBLE), RetryPolicy(trouble_first=100), limiter)  # type: ignore[arg-type]
        while not isinstance(await anext(stream), Retry):
            pass
        waiting = asyncio.ensure_future(anext(stream))
        await asyncio.sleep(0.01)
        assert not waiting.done()
        async with limiter.place():  # another call runs meanwhile
            waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        async with limiter.place():
            pass
        assert asyncio.all_tasks() == {asyncio.current_task()}

    async def patiently() -> None:
        async with asyncio.timeout(20):
            await stopped()

    asyncio.run(patiently())


def test_abandoned_stream_closes_its_attempt_and_returns_its_slot() -> None:
    attempts, limiter = Attempts(), Limiter(1)

    async def leave() -> None:
        stream = with_retries(attempts, POLICY, limiter)  # type: ignore[arg-type]
        await anext(stream)
        await stream.aclose()
        assert attempts.closed == 1
        async with asyncio.timeout(20), limiter.place():
            pass

    asyncio.run(leave())


def test_exception_that_is_not_a_provider_failure_is_unchanged() -> None:
    async def broken() -> AsyncIterator[object]:
        raise ZeroDivisionError
        yield

    with pytest.raises(ZeroDivisionError):
        asyncio.run(anext(with_retries(broken, POLICY, Limiter())))  # type: ignore[arg-type]


def test_only_rate_limits_close_the_limiter() -> None:
    limiter = Limiter(8)
    heard(Attempts(TROUBLE, CUT_OFF), RetryPolicy(trouble_first=0.0001), limiter)
    assert limiter.allowed == 8
    heard(Attempts(LIMITED), RetryPolicy(rate_limit_first=0.0001), limiter)
    assert limiter.allowed == 5  # half as many, plus one for the successful attempt


# Many calls of one provider that refuses


class Refusing:
    """A provider that refuses every call, at once or after a time, and notes when it was asked."""

    def __init__(self, clock: Clock, failure: Failure, takes: float = 0.0) -> None:
        self.clock, self.failure, self.takes = clock, failure, takes
        self.asked_at: list[float] = []

    async def __call__(self) -> AsyncIterator[object]:
        self.asked_at.append(self.clock.now)
        await asyncio.sleep(self.takes)
        if self.failure:
            raise AttemptFailed(self.failure)
        yield DONE


class Ended(NamedTuple):
    """The outcome of a call."""

    error: RateLimited | None
    after: float
    retries: list[Retry]


async def ended(attempt: Refusing, policy: RetryPolicy, limiter: Limiter) -> Ended:
    began, told = attempt.clock.now, []
    try:
        async for item in with_retries(attempt, policy, limiter):  # type: ignore[arg-type]
            told.append(item)  # noqa: PERF401  # what comes before an error is wanted too
    except RateLimited as error:
        return Ended(error, attempt.clock.now - began, [item for item in told if isinstance(item, Retry)])
    return Ended(None, attempt.clock.now - began, [item for item in told if isinstance(item, Retry)])


async def crowd(attempt: Refusing, policy: RetryPolicy, limiter: Limiter, count: int = 50) -> list[Ended]:
    return await asyncio.gather(*(ended(attempt, policy, limiter) for _ in range(count)))


TINY = RetryPolicy(0.04, 5, 0.02, 4, longest_wait=1.2, most_waiting=3.0, most_seconds=6.0)


@pytest.mark.slow("hundreds of refused calls")
@pytest.mark.req("K0.12", "R2.40")
def test_many_rate_limited_calls_end_within_the_wait_cap(subtests: pytest.Subtests) -> None:
    count = size(20, nightly=50)
    for (name, policy), asks, takes in product(
        {"tiny": TINY, "usual": POLICY}.items(), [None, 0.5, 1.0] if AT_NIGHT else [None, 1.0], [0.0, 0.1]
    ):
        with subtests.test(name=name, asks=asks, takes=takes), pytest.MonkeyPatch.context() as monkeypatch:
            clock = fake_clock(monkeypatch)
            limiter, failure = Limiter(), LIMITED if asks is None else asked(asks)
            attempt = Refusing(clock, failure, takes)
            found = run_at_once(clock, crowd(attempt, policy, limiter, count))
            assert len(found) == count and all(one.error is not None for one in found)
            for one in found:
                # The rest is its attempts, and the turn of the first refusal.
                assert one.after <= policy.most_waiting + 6 * takes + LOOK_AGAIN
                assert sum(retry.seconds for retry in one.retries) <= policy.most_waiting
            assert len(attempt.asked_at) <= count * 6
            clock.now += limiter.closed_for
            assert run_at_once(clock, free_places(limiter)) == limiter.allowed


@pytest.mark.req("K0.12")
def test_call_delayed_by_others_fails_with_the_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = fake_clock(monkeypatch)
    limiter = Limiter(2, "anthropic")
    limiter.was_refused(0.0)

    async def late() -> Ended:
        async with limiter.place():  # the only allowed one, which does not end
            return await ended(Refusing(clock, LIMITED), POLICY, limiter)

    one = run_at_once(clock, late())
    assert "anthropic: too many requests; after 300 s this call was still waiting" in str(one.error)
    assert one.after == pytest.approx(POLICY.most_waiting, abs=0.01)


@pytest.mark.req("K0.12")
def test_waiting_for_a_slot_without_refusals_does_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = fake_clock(monkeypatch)
    attempt = Refusing(clock, None, takes=500.0)  # type: ignore[arg-type]
    found = run_at_once(clock, crowd(attempt, POLICY, Limiter(5), 20))
    assert [one.error for one in found] == [None] * 20
    assert max(one.after for one in found) == pytest.approx(2000)


@pytest.mark.req("K0.12", "R2.40")
def test_new_calls_during_an_overlong_provider_wait_fail_unsent(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock = fake_clock(monkeypatch)
    limiter, attempt = Limiter(name="openai"), Refusing(clock, asked(1800))

    async def main() -> list[Ended]:
        first = await ended(attempt, POLICY, limiter)
        assert (first.error, first.after) == (attempt.failure.error, 0)
        clock.now += 60
        later = await crowd(attempt, POLICY, limiter)
        assert len(attempt.asked_at) == 1
        clock.now += 1740
        attempt.failure = None  # type: ignore[assignment]
        assert (await ended(attempt, POLICY, limiter)).error is None
        return later

    for one in run_at_once(clock, main()):
        assert one.after == 0 and one.retries == []
        assert "openai: too many requests; the next call is allowed at" in str(one.error)
        assert "(in 1,740 s)" in str(one.error) and "%%agent --continue" in error_in_notebook(one.error)


@pytest.mark.req("K0.12")
def test_running_call_fails_with_its_error_during_long_closure(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock, limiter = fake_clock(monkeypatch), Limiter()
    attempts = Attempts(LIMITED)

    async def main() -> RateLimited:
        with pytest.raises(RateLimited) as caught:
            async for item in with_retries(attempts, POLICY, limiter):  # type: ignore[arg-type]
                if isinstance(item, Retry):
                    limiter.was_refused(0.0, asked=math.inf)
        return caught.value

    assert run_at_once(clock, main()) is LIMITED.error and attempts.made == 1


@pytest.mark.req("R2.40", "KX.3")
def test_long_wait_before_the_first_attempt_is_reported(subtests: pytest.Subtests) -> None:
    for closed, told in [(8.0, [8.0]), (0.5, [])]:
        with subtests.test(closed=closed), pytest.MonkeyPatch.context() as monkeypatch:
            clock, limiter = fake_clock(monkeypatch), Limiter(name="anthropic")
            limiter.was_refused(closed)
            one = run_at_once(clock, ended(Refusing(clock, None), POLICY, limiter))  # type: ignore[arg-type]
            assert one.retries == [Retry(0, seconds, "anthropic has asked all calls to wait") for seconds in told]
            assert one.error is None and one.after == pytest.approx(closed)


@pytest.mark.req("K0.12")
def test_delays_by_other_calls_count_towards_the_wait_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, limiter = fake_clock(monkeypatch), Limiter()
    limiter.was_refused(0.0, asked=100.0)
    one = run_at_once(clock, ended(Refusing(clock, asked(90)), POLICY, limiter))
    assert [retry.attempt for retry in one.retries] == [0, 1, 2] and one.after <= POLICY.most_waiting


@pytest.mark.req("K0.12")
def test_no_attempt_starts_after_the_time_limit_of_the_policy(monkeypatch: pytest.MonkeyPatch) -> None:
    assert POLICY.wait(LIMITED, 1, 0.0, 0.5, elapsed=596.0) == 4
    assert POLICY.wait(LIMITED, 1, 0.0, 0.5, elapsed=596.1) is None
    clock = fake_clock(monkeypatch)
    attempt = Refusing(clock, LIMITED, takes=250.0)
    run_at_once(clock, ended(attempt, POLICY, Limiter()))
    assert len(attempt.asked_at) == 3 and attempt.asked_at[-1] - attempt.asked_at[0] <= POLICY.most_seconds
