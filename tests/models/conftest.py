"""Fixtures for all model tests."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from fake_time import SkippedSilence

from agentnb.models.transport.connections import current_limits


@pytest.fixture(autouse=True)
def limiters_of_its_own() -> Iterator[None]:
    """Give each test its own limiters: earlier servers on the same port have no effect."""
    current_limits.get().begin_anew()
    yield
    current_limits.get().begin_anew()


class Cases:
    """Subtests of a test, each with its own limiters."""

    def __init__(self, subtests: pytest.Subtests) -> None:
        self._subtests = subtests

    @contextmanager
    def test(self, name: str | None = None, **named: Any) -> Iterator[None]:
        """Run a case like ``subtests.test``, without limits set by another case's server on the same port."""
        __tracebackhide__ = True
        with self._subtests.test(name, **named):
            current_limits.get().begin_anew()
            yield


@pytest.fixture
def subtests(subtests: pytest.Subtests) -> Cases:
    """The usual fixture, with separate limiters for each case."""
    return Cases(subtests)


@pytest.fixture
def skipped_silence(monkeypatch: pytest.MonkeyPatch) -> SkippedSilence:
    """Skip the silences of servers; see `fake_time`."""
    return SkippedSilence(monkeypatch)
