"""For all tests of models."""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

import httpcore2
import pytest
from fake_time import SkippedSilence

from agentnb.models import connections


@pytest.fixture(autouse=True)
def limiters_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """No test waits for what a server of another test, on the same port, has asked for."""
    monkeypatch.setattr(connections, "_limiters", {})


class Cases:
    """The cases of one test, each reported under its name and each with limiters of its own."""

    def __init__(self, subtests: pytest.Subtests) -> None:
        self._subtests = subtests

    @contextmanager
    def test(self, name: str | None = None, **named: Any) -> Iterator[None]:
        """Run one case, as ``subtests.test`` does, without what the server of another case, on the same port, has asked for."""
        __tracebackhide__ = True
        with self._subtests.test(name, **named):
            connections._limiters.clear()
            yield


@pytest.fixture
def subtests(subtests: pytest.Subtests) -> Cases:
    """The usual fixture, for tests in which a case must not wait for what the server of another case has asked for."""
    return Cases(subtests)


@pytest.fixture
def skipped_silence(monkeypatch: pytest.MonkeyPatch) -> SkippedSilence:
    """The silences of servers take no time; see `fake_time`."""
    return SkippedSilence(monkeypatch)


@pytest.fixture(scope="session", autouse=True)
def certificates_read_once() -> Iterator[None]:
    """Read the certificates of this machine once: reading them is most of the work of making a client."""
    original = httpcore2.default_ssl_context

    @cache
    def read(trusted: bool, *named: str | None) -> Any:
        return original(_trust_env=trusted)

    def default_ssl_context(*, _trust_env: bool = True) -> Any:
        return read(_trust_env, *(os.environ.get(name) for name in ("SSL_CERT_FILE", "SSL_CERT_DIR")))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(httpcore2, "default_ssl_context", default_ssl_context)
        yield


@pytest.fixture(scope="module")
def quick_collections() -> Iterator[None]:
    """Let ``gc.collect()`` look only at what the tests of this file make, not at all that was imported before."""
    gc.collect()
    gc.freeze()
    yield
    gc.unfreeze()
