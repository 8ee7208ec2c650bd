"""For all tests of models."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from fake_time import SkippedSilence

from agentnb.models.transport.connections import current_limits


@pytest.fixture(autouse=True)
def limiters_of_its_own() -> Iterator[None]:
    """No test waits for what a server of another test, on the same port, has asked for."""
    current_limits.get().begin_anew()
    yield
    current_limits.get().begin_anew()


class Cases:
    """The cases of one test, each reported under its name and each with limiters of its own."""

    def __init__(self, subtests: pytest.Subtests) -> None:
        self._subtests = subtests

    @contextmanager
    def test(self, name: str | None = None, **named: Any) -> Iterator[None]:
        """Run one case, as ``subtests.test`` does, without what the server of another case, on the same port, has asked for."""
        __tracebackhide__ = True
        with self._subtests.test(name, **named):
            current_limits.get().begin_anew()
            yield


@pytest.fixture
def subtests(subtests: pytest.Subtests) -> Cases:
    """The usual fixture, for tests in which a case must not wait for what the server of another case has asked for."""
    return Cases(subtests)


@pytest.fixture
def skipped_silence(monkeypatch: pytest.MonkeyPatch) -> SkippedSilence:
    """The silences of servers take no time; see `fake_time`."""
    return SkippedSilence(monkeypatch)
