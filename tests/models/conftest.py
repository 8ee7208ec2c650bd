"""For all tests of models."""

from __future__ import annotations

import pytest

from agentnb.models import connections


@pytest.fixture(autouse=True)
def limiters_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """No test waits for what a server of another test, on the same port, has asked for."""
    monkeypatch.setattr(connections, "_limiters", {})
