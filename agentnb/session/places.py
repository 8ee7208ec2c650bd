"""Where run logs lie when nobody has said where."""

from __future__ import annotations

from pathlib import Path

import platformdirs

from agentnb.traces.store import Store


def default_store() -> tuple[Store, str]:
    """The store in ``.agentnb/runs`` of the current folder, or of the person's data folder where that one cannot be
    written; then the second value is a sentence that says so, else it is empty.
    """
    here = Path.cwd() / ".agentnb" / "runs"
    if _can_write(here):
        return Store(here), ""
    other = platformdirs.user_data_path("agentnb") / "runs"
    return Store(other), f"This folder cannot be written: run logs go to {other}"


def _can_write(folder: Path) -> bool:
    existed = folder.parent.exists()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        probe = folder / ".writable"
        probe.write_bytes(b"")
        probe.unlink()
        if not existed:  # an empty folder is left behind only when the first run is kept
            folder.rmdir()
            folder.parent.rmdir()
    except OSError:
        return False
    return True
