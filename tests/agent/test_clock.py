"""The time a run may take: it stands still while it is held, and its end comes once."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
from quick_loop import QuickLoop

from agentnb.agent import clock as clock_module
from agentnb.agent.clock import Clock


class OnQuickLoop:
    """Time passes on the loop when nothing else is to be done; the clock is told the same time."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.loop = QuickLoop()
        monkeypatch.setattr(clock_module, "perf_counter", self.loop.time)
        self.rung: list[float] = []

    def up(self) -> None:
        self.rung.append(round(self.loop.time(), 3))

    def run(self, steps: Callable[[], Coroutine[Any, Any, None]]) -> list[float]:
        """When the time was up, in seconds of the loop."""
        try:
            self.loop.run_until_complete(steps())
        finally:
            self.loop.close()
        return self.rung


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> OnQuickLoop:
    return OnQuickLoop(monkeypatch)


async def passes(seconds: float) -> None:
    await asyncio.sleep(seconds)


@pytest.mark.req("KX.2")
def test_the_time_is_up_once_after_so_many_seconds(quick: OnQuickLoop) -> None:
    async def steps() -> None:
        Clock(5.0).start(quick.up)
        await passes(20)

    assert quick.run(steps) == [5.0]


@pytest.mark.req("KX.2")
def test_while_it_is_held_no_time_is_taken(quick: OnQuickLoop) -> None:
    async def steps() -> None:
        clock = Clock(5.0)
        clock.start(quick.up)
        await passes(3)
        clock.hold()
        await passes(100)
        assert round(clock.seconds, 3) == 3
        clock.release()
        await passes(1)
        assert round(clock.seconds, 3) == 4
        await passes(10)

    assert quick.run(steps) == [105.0]


@pytest.mark.req("KX.2")
def test_who_holds_it_twice_has_to_release_it_twice(quick: OnQuickLoop) -> None:
    async def steps() -> None:
        clock = Clock(5.0)
        clock.start(quick.up)
        clock.hold()
        clock.hold()
        await passes(10)
        clock.release()
        await passes(10)
        clock.release()
        await passes(10)

    assert quick.run(steps) == [25.0]


def test_after_it_was_stopped_nothing_rings_also_when_it_is_released_later(quick: OnQuickLoop) -> None:
    async def steps() -> None:
        clock = Clock(5.0)
        clock.start(quick.up)
        clock.hold()
        clock.stop()
        clock.release()
        await passes(50)

    assert quick.run(steps) == []


def test_what_was_taken_before_counts_and_more_than_all_rings_at_once(quick: OnQuickLoop) -> None:
    async def steps() -> None:
        Clock(5.0, before=3.0).start(quick.up)
        Clock(5.0, before=9.0).start(quick.up)
        await passes(10)

    assert quick.run(steps) == [0.0, 2.0]


def test_without_a_limit_it_only_counts(quick: OnQuickLoop) -> None:
    async def steps() -> None:
        clock = Clock()
        clock.start(quick.up)
        await passes(10)
        assert round(clock.seconds, 3) == 10

    assert quick.run(steps) == []
