"""An own folder of the person for one test."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

import pytest

from agentnb import settings
from agentnb.store import own_logs


def use_own_folder(monkeypatch: pytest.MonkeyPatch, folder: Path) -> Path:
    """Have this process keep the person's files in a folder, with a log secret of its own until the test ends."""
    monkeypatch.setattr(settings, "personal_folder", lambda: folder)
    monkeypatch.setattr(own_logs, "_secret", lru_cache(maxsize=1)(own_logs._secret.__wrapped__))
    return folder
