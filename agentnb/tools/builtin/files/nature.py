"""The nature of a call about a file: whether the name of the file says that it may hold keys."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Any

from agentnb.tools.builtin.key_files import is_key_file
from agentnb.tools.subject import CallNature


def nature_of_reading(arguments: Any, work_dir: Path) -> CallNature:
    """Return ``sensitive`` for a file that may hold keys, else ``reads``."""
    return "sensitive" if _names_key_file(arguments, work_dir) else "reads"


def nature_of_writing(arguments: Any, work_dir: Path) -> CallNature:
    """Return ``sensitive`` for a file that may hold keys, else ``changes``."""
    return "sensitive" if _names_key_file(arguments, work_dir) else "changes"


def _names_key_file(arguments: Any, work_dir: Path) -> bool:
    """Return whether the path of a call, links followed, ends in the name of a file that may hold keys."""
    path = arguments.get("path") if isinstance(arguments, dict) else None
    if not isinstance(path, str):
        return False
    name = path.rpartition("/")[2]
    if is_key_file(name):
        return True
    whole = f"{work_dir}/{path}" if path[:1] != "/" else path
    try:
        if not stat.S_ISLNK(os.lstat(whole).st_mode):
            return False  # as nearly always, at the price of a single look: this runs for each call
    except (OSError, ValueError):
        pass
    try:
        return is_key_file(os.path.realpath(whole).rpartition("/")[2])
    except (OSError, ValueError):
        return False
