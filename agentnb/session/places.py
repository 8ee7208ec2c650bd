"""Where run logs lie when nobody has said where."""

from __future__ import annotations

import tempfile
from pathlib import Path

import platformdirs

from agentnb.traces.store import Store


def default_store() -> tuple[Store, str]:
    """The store in ``.agentnb/runs`` of the current folder, or of the person's data folder where that one cannot be
    written; then the second value is a sentence that says so, else it is empty.
    """
    here = Path(".agentnb") / "runs"
    if _can_write(here):
        return Store(here), ""
    other = platformdirs.user_data_path("agentnb") / "runs"
    return Store(other), f"This folder cannot be written: run logs go to {other}"


def _can_write(folder: Path) -> bool:
    """Tried, not asked: modes do not tell. Each kernel tries with a file of its own, for several may start at once."""
    existing = next((parent for parent in (folder, *folder.parents) if parent.exists()), None)
    try:
        if existing is None or not existing.is_dir():
            return False
        with tempfile.TemporaryFile(dir=existing):
            return True
    except OSError:
        return False
