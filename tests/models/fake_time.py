"""Clocks for tests: one jumps to the next moment at which there is something to do, one goes on while a server is silent."""

from __future__ import annotations

import asyncio
import select
import selectors
import threading
from collections.abc import Awaitable
from contextlib import suppress
from time import monotonic
from types import SimpleNamespace
from typing import Any
from weakref import WeakSet

import pytest

from agentnb.models.transport import limiter, retry
from agentnb.testing import listener as loopback

LIMIT = 5.0
"""Seconds of silence that a test allows whose silences are skipped: what does come has so long, on a busy machine too."""


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


class SkippedSilence:
    """Puts the clocks of all event loops forward, by 2 s a look, whenever a server of `agentnb.testing` is silent.

    So the limit of a silence is met without waiting for it, and by nothing but a silence. Each step waits until the client has
    read what came before it, and a sign of life, if the server gives any, comes after each.
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._passed = 0.0
        self._loops: WeakSet[asyncio.AbstractEventLoop] = WeakSet()
        self._lock = threading.Lock()

        def look(*at: Any) -> Any:
            self._step()
            return select.select(*at)

        monkeypatch.setattr(loopback, "LOOK_EVERY", 0.001)
        monkeypatch.setattr(loopback, "select", SimpleNamespace(select=look))
        monkeypatch.setattr(asyncio.BaseEventLoop, "time", lambda loop: self._time(loop))

    def _time(self, loop: asyncio.AbstractEventLoop) -> float:
        with self._lock:
            self._loops.add(loop)
        return monotonic() + self._passed

    def _step(self) -> None:
        with self._lock:
            loops = [loop for loop in self._loops if not loop.is_closed()]
        for loop in loops:
            done = threading.Event()
            with suppress(RuntimeError):  # it was closed just now
                loop.call_soon_threadsafe(self._after_turns, loop, 200, done)
                while loop.is_running() and not done.wait(0.01):
                    pass

    def _after_turns(self, loop: asyncio.AbstractEventLoop, turns: int, done: threading.Event) -> None:
        if turns:
            loop.call_soon(self._after_turns, loop, turns - 1, done)
        else:
            self._passed += 2.0
            done.set()


def fake_clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """The clock of limiters and retries, in this test."""
    clock = Clock()
    for module in (limiter, retry):
        monkeypatch.setattr(module, "monotonic", clock)
    return clock
