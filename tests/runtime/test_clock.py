"""The clock of a run's time limit: it pauses while held, and rings once."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from datetime import timedelta
from typing import Any

import pytest
from run_builder import START, opening
from virtual_time import VirtualTimeLoop

from agentnb.core.log import events as e
from agentnb.core.questions import WaitingOnUser
from agentnb.runtime import clock as clock_module
from agentnb.runtime.clock import Clock, seconds_taken


class OnQuickLoop:
    """A loop and clock with shared fake time, which passes when the loop is idle."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.loop = VirtualTimeLoop()
        monkeypatch.setattr(clock_module, "perf_counter", self.loop.time)
        self.rung: list[float] = []

    def up(self) -> None:
        self.rung.append(round(self.loop.time(), 3))

    def run(self, steps: Callable[[], Coroutine[Any, Any, None]]) -> list[float]:
        """Return the loop times at which the clock rang."""
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
def test_clock_rings_once_at_its_limit(quick: OnQuickLoop) -> None:
    async def steps() -> None:
        Clock(5.0).start(quick.up)
        await passes(20)

    assert quick.run(steps) == [5.0]


@pytest.mark.req("KX.2")
def test_clock_on_hold_counts_no_time(quick: OnQuickLoop) -> None:
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
def test_clock_held_twice_requires_two_releases(quick: OnQuickLoop) -> None:
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


def test_stopped_clock_never_rings_even_after_a_release(quick: OnQuickLoop) -> None:
    async def steps() -> None:
        clock = Clock(5.0)
        clock.start(quick.up)
        clock.hold()
        clock.stop()
        clock.release()
        await passes(50)

    assert quick.run(steps) == []


def test_earlier_time_counts_and_exceeding_the_limit_rings_at_once(quick: OnQuickLoop) -> None:
    async def steps() -> None:
        Clock(5.0, before=3.0).start(quick.up)
        Clock(5.0, before=9.0).start(quick.up)
        await passes(10)

    assert quick.run(steps) == [0.0, 2.0]


def test_clock_without_a_limit_only_counts_time(quick: OnQuickLoop) -> None:
    async def steps() -> None:
        clock = Clock()
        clock.start(quick.up)
        await passes(10)
        assert round(clock.seconds, 3) == 10

    assert quick.run(steps) == []


# Elapsed time in logs


def timed_events(*steps: tuple[float, type[e.Event], dict[str, Any]]) -> list[e.AnyEvent]:
    """Return the events of a run, each so many seconds after the previous."""
    at, found = START, [opening()]
    for seq, (seconds, kind, fields) in enumerate(steps, 1):
        at += timedelta(seconds=seconds)
        found.append(kind(seq=seq, at=at, run_id="r-1", **fields))  # type: ignore[arg-type]
    return found  # type: ignore[return-value]


def begun(after: float) -> Any:
    return after, e.RoundStarted, {"index": 0, "reason": "prompt"}


def over(after: float) -> Any:
    return after, e.RoundFinished, {"index": 0, "status": "success"}


def asked(after: float, name: str = "q1") -> Any:
    return after, e.QuestionAsked, {"question": WaitingOnUser("confirm", "Well?", {}, name, "c1")}


def answered(after: float, name: str = "q1") -> Any:
    return after, e.QuestionAnswered, {"question_id": name, "answer": True}


def commanded(after: float, command: str) -> Any:
    return after, e.CommandReceived, {"command": command, "text": "Mind it." if command == "say" else ""}


def recovered(after: float) -> Any:
    return after, e.RunRecovered, {"schema": e.SCHEMA}


TAKEN: dict[str, tuple[list[Any], float]] = {
    "nothing but its opening": ([], 0),
    "plain work": ([begun(1), over(10)], 11),
    "a question": ([begun(1), asked(2), answered(100), over(4)], 7),
    "a question that was never answered": ([begun(1), asked(2), commanded(100, "stop"), over(50)], 3),
    "words while it is open": ([begun(1), asked(2), commanded(30, "say"), answered(70), over(4)], 7),
    "two questions at once": ([begun(1), asked(2), asked(5, "q2"), answered(50), answered(50, "q2"), over(4)], 7),
    "a pause": ([begun(1), over(2), commanded(3, "pause"), commanded(100, "resume"), begun(4), over(5)], 15),
    "a pause while a question is open": (
        [begun(1), asked(2), commanded(10, "pause"), answered(10), commanded(10, "resume"), over(4)],
        7,
    ),
    "a death": ([begun(1), over(2), recovered(10_000), begun(4), over(5)], 12),
    "a death while the person was asked": ([begun(1), asked(2), recovered(10_000), begun(4), over(5)], 12),
    "a death in a pause": ([begun(1), commanded(2, "pause"), recovered(10_000), begun(4), over(5)], 12),
    "a death while two were asked, and asked again": (
        [begun(1), asked(2), asked(0, "q2"), recovered(10_000), asked(3, "q3"), answered(100, "q3"), over(5)],
        11,
    ),
    "two deaths": ([begun(1), recovered(10_000), begun(2), recovered(10_000), over(4)], 7),
    "an answer to a question of the one that died": ([begun(1), asked(2), recovered(9), answered(3), asked(1), over(9)], 7),
    "resumed without a pause": ([begun(1), commanded(2, "resume"), commanded(3, "pause"), over(100)], 6),
}


@pytest.mark.req("KX.2")
def test_run_time_excludes_questions_and_dead_processes(subtests: pytest.Subtests) -> None:
    for what, (steps, seconds) in TAKEN.items():
        with subtests.test(what=what):
            assert seconds_taken(timed_events(*steps)) == seconds
