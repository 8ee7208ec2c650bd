"""Fixtures of all tests that run agents."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Iterator
from traceback import format_stack

import pytest
from virtual_time import SkippedClock, VirtualTimeLoop

from agentnb.models.transport.connections import current_limits
from agentnb.runtime import clock
from agentnb.runtime.calls import tool_runner
from agentnb.runtime.questions import call_clock


@pytest.fixture
def own_limiters() -> Iterator[None]:
    """No account of another test holds this one's calls back."""
    current_limits.get().begin_anew()
    yield
    current_limits.get().begin_anew()


@pytest.fixture
def skipped(monkeypatch: pytest.MonkeyPatch) -> Iterator[SkippedClock]:
    """The clock of the runs that this test begins, to be put forward."""
    made = SkippedClock()
    monkeypatch.setattr(asyncio, "new_event_loop", made.new_event_loop)
    for module in (call_clock, clock, tool_runner):
        monkeypatch.setattr(module, "perf_counter", made.perf_counter)
    yield made
    made.forget()


@pytest.fixture
def virtual_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Virtual time for the runs that this test begins in threads of their own."""
    monkeypatch.setattr(asyncio, "new_event_loop", VirtualTimeLoop)


@pytest.fixture
def no_escape() -> Iterator[None]:
    """Fail the test whose interrupt arrives outside a run, where it would end the process of the tests."""
    escaped: list[str] = []
    before = signal.signal(signal.SIGINT, lambda number, frame: escaped.append("".join(format_stack(frame, limit=10))))
    yield
    signal.signal(signal.SIGINT, before)
    assert not escaped, escaped[0]
