"""The default folder for run logs."""

from __future__ import annotations

import tempfile
from pathlib import Path

from agentnb import settings
from agentnb.store.store import FOLDER, Store


def default_store() -> tuple[Store, str]:
    """Return the store in ``.agentnb/runs`` of the current folder, and an empty note.

    If the current folder is not writable, return the store in the person's data folder, and a note about it.
    """
    if _can_write(FOLDER):
        return Store(FOLDER), ""
    folder = settings.personal_folder() / "runs"
    return Store(folder), f"This folder is not writable: run logs go to {folder}"


def _can_write(folder: Path) -> bool:
    """Return whether a test file can be written, since file modes are not conclusive. Each kernel tries with its own file, as
    several may start at once.
    """
    existing = next((parent for parent in (folder, *folder.parents) if parent.exists()), None)
    try:
        if existing is None or not existing.is_dir():
            return False
        with tempfile.TemporaryFile(dir=existing):
            return True
    except OSError:
        return False
