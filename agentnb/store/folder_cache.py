"""What is kept beside the logs of a folder, so that they need not be read again: where it is, and when it is out of date."""

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
"""The folder of all caches, beside the logs; readers of folders pass over hidden ones."""
KEPT = 3600
"""Seconds for which files are kept that are no longer used, as another process may read or write them."""
_IGNORE = "# Made of the logs beside it: agentnb makes it again when it is gone.\n*\n"


class Stamp(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """What tells whether a file has changed: its size in bytes, and its times in nanoseconds."""

    size: int
    modified: int
    changed: int


def stamp_of(path: str | Path) -> Stamp | None:
    """Return the stamp of a file; None if it is gone."""
    try:
        status = os.stat(path)  # noqa: PTH116  # of many thousand files: making a Path takes longer
    except (OSError, ValueError):
        return None
    return Stamp(status.st_size, status.st_mtime_ns, status.st_ctime_ns)


@cache
def made_by(layout: int) -> str:
    """Return what a cache must have been made by to be used: the versions of what decides what is read."""
    return f"{layout} {version('agentnb')} {SCHEMA} {version('genai-prices')}"


def made_of(folder: Path) -> str:
    """Return what tells this folder from a copy of it, in which the times of files may say nothing. Raises OSError."""
    return f"{folder.resolve()} {folder.stat().st_ino}"


def remove_torn(folder: Path) -> None:
    """Remove files in a folder of caches whose process died before they were whole."""
    with suppress(OSError):
        for path in folder.glob(".*.*"):
            if path.stat().st_mtime < time.time() - KEPT:
                path.unlink()


def make_home(folder: Path) -> Path:
    """Make the folder of caches, which only its owner can read, and return it. Raises OSError if it cannot be made."""
    home = folder / HOME
    home.mkdir(mode=0o700, exist_ok=True)
    ignore = home / ".gitignore"
    if not ignore.exists():
        ignore.write_text(_IGNORE)
    return home
