"""Caches beside the logs of a folder, so that these need not be read again: their place and their validity."""

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
"""Folder of all caches, beside the logs; readers of folders skip hidden ones."""
KEPT = 3600
"""Seconds to keep unused files, as another process may read or write them."""
_IGNORE = "# Made of the logs beside it: agentnb makes it again when it is gone.\n*\n"


class Stamp(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Fingerprint of a file, for detecting changes: its size in bytes, and its times in nanoseconds."""

    size: int
    modified: int
    changed: int


def stamp_of(path: str | Path) -> Stamp | None:
    """Return the stamp of a file, or None if it does not exist."""
    try:
        status = os.stat(path)  # noqa: PTH116  # of many thousand files: making a Path takes longer
    except (OSError, ValueError):
        return None
    return Stamp(status.st_size, status.st_mtime_ns, status.st_ctime_ns)


@cache
def made_by(layout: int) -> str:
    """Return the version key of a cache: versions of everything that affects its content."""
    return f"{layout} {version('agentnb')} {SCHEMA} {version('genai-prices')}"


def made_of(folder: Path) -> str:
    """Return the identity of this folder, which its copies do not share: in a copy, file times may mislead. Raises OSError."""
    return f"{folder.resolve()} {folder.stat().st_ino}"


def remove_torn(folder: Path) -> None:
    """Remove incomplete files of dead processes from a folder of caches."""
    with suppress(OSError):
        for path in folder.glob(".*.*"):
            if path.stat().st_mtime < time.time() - KEPT:
                path.unlink()


def make_home(folder: Path) -> Path:
    """Create the folder of caches, readable only by its owner, and return it. Raises OSError on failure."""
    home = folder / HOME
    home.mkdir(mode=0o700, exist_ok=True)
    ignore = home / ".gitignore"
    if not ignore.exists():
        ignore.write_text(_IGNORE)
    return home
