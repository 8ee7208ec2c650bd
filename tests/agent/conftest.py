"""What stands beside this file (`scripted_runs`, `todo_calls`) can be imported by the tests in the folders below too."""

from __future__ import annotations

import pytest

from agentnb.models import connections


@pytest.fixture
def own_limiters(monkeypatch: pytest.MonkeyPatch) -> None:
    """No account of another test holds this one's calls back."""
    monkeypatch.setattr(connections, "_limiters", {})
