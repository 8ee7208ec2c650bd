"""Recorded runs that ship with agentnb: three failures and a healthy run, as conversations that SAM exports.

Each has a short name, which `load_trace`, ``%traces`` and ``agentnb show`` take where they take a file.
"""

from __future__ import annotations

from pathlib import Path

from agentnb.errors import SettingsError, suggest_names

FILES = {
    "complex-fails": "complex-fails.json",
    "simple-fail": "gpt-simple-fail.json",
    "didnt-close-out": "complex-workflow-didn't-close-out.json",
    "healthy": "healthy-research.json",
}
"""The file of each short name.

``complex-fails``: research, then five replies that repeat one summary. ``simple-fail``: five stories as five todos, of which
the last is told and left open. ``didnt-close-out``: a report that says all is done while a todo is in progress. ``healthy``:
twelve searches in eight rounds with the todos kept in step, and one summary.
"""
_HERE = Path(__file__).parent


def path(name: str) -> Path:
    """Return the file of an example, by its short name or its file name; raises `SettingsError` with the names there are."""
    file = find(name)
    if file is None:
        raise SettingsError(f"There is no example {name!r}", suggest_names(name, FILES) or f"Examples: {', '.join(FILES)}")
    return file


def display_path(path: Path) -> str:
    """Return the path as runs name it: of an example only its file name, as nobody needs to know where agentnb is installed."""
    return path.name if path.parent == _HERE else str(path)


def find(name: str) -> Path | None:
    """Return the file of an example, or None."""
    file = FILES.get(name, name if name in FILES.values() else None)
    return None if file is None else _HERE / file
