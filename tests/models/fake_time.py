"""A clock that stands still while there is something to do, and jumps to the next moment at which there is."""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Awaitable
from typing import Any

import pytest

from agentnb.models import limiter, retry


class Clock:
    """Seconds since the test began."""

    def __init__(self) -> None:
        self.now = 1_000.0

    def __call__(self) -> float:
        return self.now


class _Selector(selectors.DefaultSelector):
    """Waits by putting the clock forward."""

    clock: Clock

    def select(self, timeout: float | None = None) -> Any:
        assert timeout is not None, "nothing will ever happen again"
        self.clock.now += timeout
        return super().select(0)


def run_at_once(clock: Clock, main: Awaitable[Any]) -> Any:
    """Run it to its end on a loop of which every wait takes no time."""
    selector = _Selector()
    selector.clock = clock
    loop = asyncio.SelectorEventLoop(selector)
    loop.time = clock  # type: ignore[method-assign]
    with asyncio.Runner(loop_factory=lambda: loop) as runner:
        return runner.run(main)  # type: ignore[arg-type]


def fake_clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """The clock of limiters and retries, in this test."""
    clock = Clock()
    for module in (limiter, retry):
        monkeypatch.setattr(module, "monotonic", clock)
    return clock
