"""Fixtures of all tests that run agents."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest
from virtual_time import SkippedClock

from agentnb.models import connections
from agentnb.runtime import call_clock, clock, tool_runner


@pytest.fixture
def own_limiters(monkeypatch: pytest.MonkeyPatch) -> None:
    """No account of another test holds this one's calls back."""
    monkeypatch.setattr(connections, "_limiters", {})


@pytest.fixture
def skipped(monkeypatch: pytest.MonkeyPatch) -> Iterator[SkippedClock]:
    """The clock of the runs that this test begins, to be put forward."""
    made = SkippedClock()
    monkeypatch.setattr(asyncio, "new_event_loop", made.new_event_loop)
    for module in (call_clock, clock, tool_runner):
        monkeypatch.setattr(module, "perf_counter", made.perf_counter)
    yield made
    made.forget()
