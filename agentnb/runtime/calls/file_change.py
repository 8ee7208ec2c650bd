"""The change of a file that a call would make: shown before the person decides, and the same when it is made."""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Iterable
from difflib import unified_diff
from pathlib import Path
from typing import Any, NamedTuple

from agentnb.core.log.stores import MAX_KEPT_FILE_BYTES
from agentnb.core.redaction import holds_key
from agentnb.core.run.approvals import arguments_as_json
from agentnb.tools.builtin.files.confined import Place, first_bytes, opened_file, opened_folder, place_of
from agentnb.tools.builtin.files.nature import may_hold_keys
from agentnb.tools.subject import flag_of, kind_of_subject, shows_change, text_after, value_of_subject
from agentnb.tools.tool import Tool, ToolRefused

MAX_BYTES = 1_000_000
"""The longest file and text of which a change is shown: comparing takes time that grows with both."""


class FileChange(NamedTuple):
    """The change of a file."""

    diff: str = ""
    """As a unified diff; empty if it cannot be shown, or if nothing changes."""
    before: str = ""
    """The digest of the file and its place as it was looked at; empty if the call writes no file that can be looked at."""

    may_hold_keys: bool = False
    """Whether the name of the file says that it may hold keys: then no diff is made."""


NO_CHANGE = FileChange()


def file_change(tool: Tool | None, arguments: Any, work_dir: Path) -> FileChange:
    """Return the change that a call would make to a file in the working folder.

    Of a file elsewhere nothing is read: the diff goes into the log, and the model may name any path.
    """
    place = _place(tool, arguments, work_dir) if shows_change(tool) else None
    if place is None:
        return NO_CHANGE
    data, before = _read(place)
    if may_hold_keys(place.shown, work_dir):
        return FileChange(before=before, may_hold_keys=True)
    if data is not None and len(data) > MAX_BYTES:
        return FileChange(before=before)
    try:
        old = None if data is None else data.decode()
    except UnicodeDecodeError:
        return FileChange(before=before)
    new = text_after(tool, arguments, old)
    if new is None or len(new) > MAX_BYTES:
        return FileChange(before=before)
    lines = unified_diff(_lines(old or ""), _lines(new), "/dev/null" if old is None else place.relative, place.relative)
    return FileChange("".join(_ended(lines)), before)


def holds_known_key(tool: Tool | None, arguments: Any, work_dir: Path) -> bool:
    """Return whether a call that writes a file in the working folder has a known key before it or in what it writes."""
    place = _place(tool, arguments, work_dir) if flag_of(tool) == "file_write" else None
    if place is None:
        return False
    found = _first_bytes(place, MAX_KEPT_FILE_BYTES)
    return holds_key(b"" if found is None else found[0]) or holds_key(arguments_as_json(arguments).encode())


def file_digest(tool: Tool | None, arguments: Any, work_dir: Path) -> str:
    """Return the digest of the file that a call writes as it is now; empty as in `FileChange`."""
    place = _place(tool, arguments, work_dir)
    return "" if place is None else _read(place)[1]


def _place(tool: Tool | None, arguments: Any, work_dir: Path) -> Place | None:
    """Return the place that a call writes, if it is in the working folder and no device, pipe or folder."""
    value = value_of_subject(tool, arguments)
    if kind_of_subject(tool) != "path" or value is None:
        return None
    try:
        place = place_of(value, work_dir)
        return place if place.names and stat.S_ISREG(os.lstat(place.real).st_mode) else None
    except FileNotFoundError:
        return place
    except (ToolRefused, OSError):
        return None


def _read(place: Place) -> tuple[bytes | None, str]:
    """Return a file, at most one byte more than what is compared, None if it cannot be read; and its digest."""
    path = f"{place.real}\0".encode("utf-8", "surrogateescape")
    found = _first_bytes(place, MAX_BYTES + 1)
    if found is None:
        return None, hashlib.sha256(b"absent " + path).hexdigest()
    data, status = found
    rest = f" {status.st_size} {status.st_mtime_ns}" if len(data) > MAX_BYTES else ""
    return data, hashlib.sha256(path + data + rest.encode()).hexdigest()


def _first_bytes(place: Place, most: int) -> tuple[bytes, os.stat_result] | None:
    """Return the beginning of a file, and its status; None if it cannot be read."""
    try:
        with opened_folder(place, len(place.names) - 1) as folder, opened_file(folder, place) as (file, status):
            return first_bytes(file, most), status
    except (ToolRefused, OSError):
        return None


def _lines(text: str) -> list[str]:
    return text.splitlines(keepends=True)


def _ended(lines: Iterable[str]) -> Iterable[str]:
    """Yield the lines of a diff, each with its end."""
    for line in lines:
        yield line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n"
