"""Caches stored alongside the logs in a folder, so that the logs need not be read again: their location and validity."""

from __future__ import annotations

import os
import time
from contextlib import suppress
from functools import cache
from importlib.metadata import version
from pathlib import Path

import msgspec

from agentnb.core.log.events import SCHEMA

HOME = ".tables"
"""Folder for all caches, alongside the logs; hidden, so that readers of folders skip it."""
KEPT = 3600
"""Seconds for which unused files are kept, since another process may be reading or writing them."""
_IGNORE = "# Built from the logs beside it: agentnb rebuilds it if it is deleted.\n*\n"


class Stamp(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Fingerprint of a file, used to detect changes: its size in bytes, and its times in nanoseconds."""

    size: int
    modified: int
    changed: int

    @classmethod
    def of(cls, status: os.stat_result) -> Stamp:
        """Return the stamp of a file with this status."""
        return cls(status.st_size, status.st_mtime_ns, status.st_ctime_ns)


def stamp_of(path: str | Path) -> Stamp | None:
    """Return the stamp of a file, or None if it does not exist."""
    try:
        return Stamp.of(os.stat(path))  # noqa: PTH116  # of many thousand files: making a Path takes longer
    except (OSError, ValueError):
        return None


@cache
def made_by(layout: int) -> str:
    """Return the version key of a cache: the versions of everything that affects its content."""
    return f"{layout} {version('agentnb')} {SCHEMA} {version('genai-prices')}"


def made_of(folder: Path) -> str:
    """Return an identity for this folder that copies of it do not share, since file times may mislead in a copy. Raises
    OSError.
    """
    return f"{folder.resolve()} {folder.stat().st_ino}"


def remove_torn(folder: Path) -> None:
    """Clean up a folder of caches: remove incomplete files left by dead processes."""
    with suppress(OSError):
        for path in folder.glob(".*.*"):
            if path.stat().st_mtime < time.time() - KEPT:
                path.unlink()


def make_home(folder: Path) -> Path:
    """Create the folder for caches, readable only by its owner, and return it. Raises OSError on failure."""
    home = folder / HOME
    home.mkdir(mode=0o700, exist_ok=True)
    ignore = home / ".gitignore"
    if not ignore.exists():
        ignore.write_text(_IGNORE)
    return home
