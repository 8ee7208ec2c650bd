"""Calls of a provider that are stopped, at any moment, and many at once."""

from __future__ import annotations

import asyncio
import gc
import random
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import aclosing, contextmanager
from typing import Any

import pytest
from quick_models import FORMATS, LONG, PATIENCE, REQUEST, WIRES, items_of, quick, reply_of

from agentnb.core.events import TextDelta
from agentnb.models import Reply, Retry
from agentnb.models.connections import limiter_of
from agentnb.models.limiter import MAX_AT_ONCE
from agentnb.models.retry import RetryPolicy
from agentnb.testing import Cut, LoopbackServer, Stall, Status

each_format = pytest.mark.parametrize("wire", FORMATS)


@contextmanager
def full_port() -> Iterator[int]:
    """A port at which connections are not taken any more, so that one more has to wait."""
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
    """What was told until ``when``, after which the call is stopped, within patience."""
    told: list[Any] = []
    model = quick(name, retries)

    async def listen() -> None:
        async with aclosing(model.stream(REQUEST)) as items:  # type: ignore[type-var]
            async for item in items:
                told.append(item)  # noqa: PERF401

    async with asyncio.timeout(PATIENCE):
        task = asyncio.ensure_future(listen())
        while not when(told):
            await asyncio.sleep(0.005)
            assert not task.done(), task
        await asyncio.sleep(0.02)
        assert not task.done()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert asyncio.all_tasks() == {asyncio.current_task()}
        async with limiter_of(model._endpoint).place():  # it was given back
            pass
        assert limiter_of(model._endpoint)._inside == set()
    return told


@each_format
@pytest.mark.req("R0.13")
def test_a_call_that_waits_to_try_again_is_stopped_at_once(wire: str) -> None:
    with LoopbackServer([Status(529)]) as server:
        told = asyncio.run(
            stopped(server.model(wire), LONG, lambda told: bool([item for item in told if isinstance(item, Retry)]))
        )
    assert next(item for item in told if isinstance(item, Retry)).seconds >= 50 and len(server.requests) == 1


@each_format
@pytest.mark.parametrize("stream", ["yes", "no"])
@pytest.mark.req("R0.13")
def test_a_call_that_hears_nothing_yet_is_stopped_at_once(wire: str, stream: str) -> None:
    with LoopbackServer([Stall(100, after=0)]) as server:
        asyncio.run(stopped(server.model(wire, stream=stream), LONG, lambda _: bool(server.requests)))
        hung_up(server)


@each_format
@pytest.mark.req("R0.13")
def test_a_stream_that_has_fallen_silent_is_stopped_at_once(wire: str) -> None:
    with LoopbackServer([Stall(100, after=6)]) as server:
        told = asyncio.run(stopped(server.model(wire), LONG, lambda told: any(isinstance(item, TextDelta) for item in told)))
        hung_up(server)
    assert told and isinstance(told[-1], TextDelta)


def hung_up(server: LoopbackServer) -> None:
    """The connection was closed, not kept open behind our back."""
    until = time.monotonic() + PATIENCE
    while not server.requests[0].hung_up and time.monotonic() < until:
        time.sleep(0.01)
    assert server.requests[0].hung_up


@pytest.mark.req("R0.13")
def test_a_call_that_finds_no_connection_yet_is_stopped_at_once() -> None:
    with full_port() as port:
        asyncio.run(stopped(f"openai:m?url=http://127.0.0.1:{port}/v1", LONG, lambda _: True))


@pytest.mark.req("R0.13")
@pytest.mark.parametrize("why", ["full", "closed"])
def test_a_call_that_waits_for_its_place_is_stopped_at_once(why: str) -> None:
    with LoopbackServer(["never"]) as server:
        limiter = limiter_of(quick(server.model("openai"))._endpoint)

        async def wait() -> None:
            if why == "closed":
                limiter.was_refused(100)
            else:
                limiter._most = limiter._allowed = 0
            model = quick(server.model("openai"))
            task = asyncio.ensure_future(items_of(model))
            await asyncio.sleep(0.05)
            assert not task.done()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task

        asyncio.run(wait())
        assert not limiter._inside and not limiter._waiting
    assert server.requests == []


@pytest.mark.parametrize("seed", range(15))
def test_calls_that_are_stopped_at_any_moment_leave_nothing_behind(seed: int) -> None:
    chance = random.Random(seed)
    lines = [Status(429), Status(503), Stall(0.05, 3), Cut(), "A few words.", Stall(0.05, 0)]

    def answer(body: Any) -> Any:
        return lines[chance.randrange(len(lines))]

    async def some(server: LoopbackServer) -> None:
        model = quick(server.model(chance.choice(WIRES)), RetryPolicy(rate_limit_first=0.01, trouble_first=0.01))
        async with asyncio.timeout(PATIENCE):
            tasks = [asyncio.ensure_future(items_of(model)) for _ in range(8)]
            for task in tasks:
                await asyncio.sleep(chance.random() * 0.05)
                task.cancel()
            await asyncio.wait(tasks)
        assert asyncio.all_tasks() == {asyncio.current_task()}
        assert not limiter_of(model._endpoint)._inside and not limiter_of(model._endpoint)._waiting

    with LoopbackServer(answer) as server:
        asyncio.run(some(server))
    gc.collect()


# Many at once


class Crowd:
    """Counts the requests that a server is at, and may refuse the first."""

    def __init__(self, refused: int = 0, seconds: float = 0.02) -> None:
        self.now = self.most = self.count = 0
        self._refused, self._seconds = refused, seconds
        self._lock = threading.Lock()

    def __call__(self, body: Any) -> Any:
        with self._lock:
            self.now += 1
            self.count += 1
            self.most = max(self.most, self.now)
            refused = self.count <= self._refused
        time.sleep(self._seconds)
        with self._lock:
            self.now -= 1
        return Status(429) if refused else "Here."


@pytest.mark.req("R2.40")
def test_a_hundred_calls_at_once_go_to_the_server_a_few_at_a_time() -> None:
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
def test_many_calls_that_are_refused_at_once_all_end_well_and_with_few_requests() -> None:
    crowd = Crowd(refused=20, seconds=0.001)

    async def many(name: str) -> list[Reply]:
        model = quick(name, RetryPolicy(rate_limit_first=0.01))
        async with asyncio.timeout(60):
            return await asyncio.gather(*(reply_of(model) for _ in range(50)))

    with LoopbackServer(crowd) as server:
        assert len(asyncio.run(many(server.model("anthropic")))) == 50
    assert crowd.count == 70  # each refusal is tried again once or so, and not by all at once
