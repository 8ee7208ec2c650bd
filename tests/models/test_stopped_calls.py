"""Provider calls stopped at any moment, and many at once."""

from __future__ import annotations

import asyncio
import gc
import random
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import product
from typing import Any

import pytest
from counted_limiter import CountedLimiter, counted_limiters
from property_settings import size
from quick_models import FORMATS, LONG, PATIENCE, WIRES, items_into, items_of, quick, reply_of, wait_until_hung_up

from agentnb.core.log.events import TextDelta
from agentnb.models import Reply, Retry
from agentnb.models.defaults import MAX_AT_ONCE
from agentnb.models.transport.retry import RetryPolicy
from agentnb.testing import Cut, LoopbackServer, Stall, Status


@contextmanager
def full_port() -> Iterator[int]:
    """Yield a port with a full backlog, where another connection has to wait."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        waiting = []
        for _ in range(4):
            one = socket.socket()
            one.setblocking(False)
            one.connect_ex(listener.getsockname())
            waiting.append(one)
        try:
            yield listener.getsockname()[1]
        finally:
            for one in waiting:
                one.close()


async def stopped(name: str, retries: RetryPolicy, when: Callable[[list[Any]], bool], **around: Any) -> list[Any]:
    """Stop a call once ``when`` holds, and return its items."""
    told: list[Any] = []

    with counted_limiters() as limiters:
        async with asyncio.timeout(PATIENCE):
            task = asyncio.ensure_future(items_into(told, quick(name, retries)))
            while not when(told):
                await asyncio.sleep(0.005)
                assert not task.done(), task
            await asyncio.sleep(0.02)
            assert not task.done()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert asyncio.all_tasks() == {asyncio.current_task()}
            assert_all_are_free(limiters)
    return told


def assert_all_are_free(limiters: list[CountedLimiter]) -> None:
    assert [limiter.calls for limiter in limiters] == [0]


def has_told(kind: type) -> Callable[[list[Any]], bool]:
    """Return a condition: an item of this kind has arrived."""
    return lambda told: any(isinstance(item, kind) for item in told)


def has_asked(server: LoopbackServer) -> Callable[[list[Any]], bool]:
    """Return a condition: the server has a request."""
    return lambda _: bool(server.requests)


@pytest.mark.req("R0.13")
def test_call_waiting_to_retry_is_stopped_at_once(subtests: pytest.Subtests) -> None:
    for wire in FORMATS:
        with subtests.test(wire):
            with LoopbackServer([Status(529)]) as server:
                told = asyncio.run(stopped(server.model(wire), LONG, has_told(Retry)))
            assert next(item for item in told if isinstance(item, Retry)).seconds >= 50 and len(server.requests) == 1


@pytest.mark.req("R0.13")
def test_call_without_a_response_is_stopped_at_once(subtests: pytest.Subtests) -> None:
    for wire, stream in product(FORMATS, ["yes", "no"]):
        with subtests.test(wire=wire, stream=stream):
            with LoopbackServer([Stall(100, after=0)]) as server:
                asyncio.run(stopped(server.model(wire, stream=stream), LONG, has_asked(server)))
                wait_until_hung_up(server)


@pytest.mark.req("R0.13")
def test_silent_stream_is_stopped_at_once(subtests: pytest.Subtests) -> None:
    for wire in FORMATS:
        with subtests.test(wire):
            with LoopbackServer([Stall(100, after=6)]) as server:
                told = asyncio.run(stopped(server.model(wire), LONG, has_told(TextDelta)))
                wait_until_hung_up(server)
            assert told and isinstance(told[-1], TextDelta)


@pytest.mark.req("R0.13")
def test_call_still_connecting_is_stopped_at_once() -> None:
    with full_port() as port:
        asyncio.run(stopped(f"openai:m?url=http://127.0.0.1:{port}/v1", LONG, lambda _: True))


@pytest.mark.slow("calls of each wire, stopped at many moments")
def test_calls_stopped_at_any_moment_leave_nothing_behind(subtests: pytest.Subtests) -> None:
    for seed in range(size(4, nightly=15)):
        with subtests.test(seed=seed):
            chance = random.Random(seed)
            lines = [Status(429), Status(503), Stall(0.05, 3), Cut(), "A few words.", Stall(0.05, 0)]
            with LoopbackServer([chance.choice(lines) for _ in range(100)]) as server:
                asyncio.run(eight_stopped(server, chance))
            gc.collect()


async def eight_stopped(server: LoopbackServer, chance: random.Random) -> None:
    """Run parallel calls, each stopped a moment after the previous."""
    model = quick(server.model(chance.choice(WIRES)), RetryPolicy(rate_limit_first=0.01, trouble_first=0.01))
    with counted_limiters() as limiters:
        async with asyncio.timeout(PATIENCE):
            tasks = [asyncio.ensure_future(items_of(model)) for _ in range(8)]
            for task in tasks:
                await asyncio.sleep(chance.random() * 0.05)
                task.cancel()
            await asyncio.wait(tasks)
    assert asyncio.all_tasks() == {asyncio.current_task()}
    assert_all_are_free(limiters)


# Many at once


class Crowd:
    """Counts the active requests of a server, and may refuse the first."""

    def __init__(self, refused: int = 0, seconds: float = 0.02) -> None:
        self.now = self.most = self.count = 0
        self._refused, self._seconds = refused, seconds
        self._lock, self._two_at_once = threading.Lock(), threading.Event()

    def __call__(self, body: Any) -> Any:
        with self._lock:
            self.now += 1
            self.count += 1
            self.most = max(self.most, self.now)
            refused = self.count <= self._refused
            if self.now > 1:
                self._two_at_once.set()
        self._two_at_once.wait(PATIENCE)  # on a busy machine the second may be slow
        time.sleep(self._seconds)
        with self._lock:
            self.now -= 1
        return Status(429) if refused else "Here."


@pytest.mark.req("R2.40")
def test_hundred_parallel_calls_are_throttled_to_a_few() -> None:
    crowd = Crowd()

    async def many(name: str) -> list[Reply]:
        async with asyncio.timeout(60):
            return await asyncio.gather(*(reply_of(quick(name)) for _ in range(34)))

    with LoopbackServer(crowd) as server:
        name = server.model("openai")
        found: list[list[Reply]] = []
        threads = [threading.Thread(target=lambda: found.append(asyncio.run(many(name)))) for _ in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
    assert len([reply for replies in found for reply in replies]) == 102 == crowd.count
    assert 2 <= crowd.most <= MAX_AT_ONCE


@pytest.mark.req("R2.40", "K0.12")
def test_many_calls_rate_limited_together_succeed_with_few_requests() -> None:
    crowd = Crowd(refused=20, seconds=0.001)

    async def many(name: str) -> list[Reply]:
        model = quick(name, RetryPolicy(rate_limit_first=0.01))
        async with asyncio.timeout(60):
            return await asyncio.gather(*(reply_of(model) for _ in range(50)))

    with LoopbackServer(crowd) as server:
        assert len(asyncio.run(many(server.model("anthropic")))) == 50
    assert crowd.count == 70  # each refusal causes about one retry, not one for each call
