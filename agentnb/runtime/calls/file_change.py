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
from agentnb.policies.permissions.places import resolved_path
from agentnb.tools.subject import flag_of, subject_of, value_of_subject
from agentnb.tools.tool import Tool

MAX_BYTES = 1_000_000
"""The longest file and text of which a change is shown: comparing takes time that grows with both."""
_READ = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0)  # a pipe put there meanwhile must not block


class FileChange(NamedTuple):
    """The change of a file."""

    diff: str = ""
    """As a unified diff; empty if it cannot be shown, or if nothing changes."""
    before: str = ""
    """The digest of the file and its place as it was looked at; empty if the call writes no file that can be looked at."""


NO_CHANGE = FileChange()


def file_change(tool: Tool | None, arguments: Any, work_dir: Path) -> FileChange:
    """Return the change that a call would make to a file in the working folder.

    Of a file elsewhere nothing is read: the diff goes into the log, and the model may name any path.
    """
    subject, path = subject_of(tool), _path(tool, arguments, work_dir)
    if subject is None or not subject.content or path is None:
        return NO_CHANGE
    data, before = _read(path)
    old_data = data or b""
    content = arguments.get(subject.content)
    if not isinstance(content, str) or max(len(content), len(old_data)) > MAX_BYTES:
        return FileChange(before=before)
    try:
        old = old_data.decode()
    except UnicodeDecodeError:
        return FileChange(before=before)
    name = str(path.relative_to(work_dir.resolve()))
    lines = unified_diff(_lines(old), _lines(content), "/dev/null" if data is None else name, name)
    return FileChange("".join(_ended(lines)), before)


def holds_known_key(tool: Tool | None, arguments: Any, work_dir: Path) -> bool:
    """Return whether a call that writes a file in the working folder has a known key before it or in what it writes."""
    path = _path(tool, arguments, work_dir) if flag_of(tool) == "file_write" else None
    if path is None:
        return False
    try:
        with os.fdopen(os.open(path, _READ), "rb") as file:
            data = file.read(MAX_KEPT_FILE_BYTES)
    except OSError:
        data = b""
    return holds_key(data) or holds_key(arguments_as_json(arguments).encode())


def file_digest(tool: Tool | None, arguments: Any, work_dir: Path) -> str:
    """Return the digest of the file that a call writes as it is now; empty as in `FileChange`."""
    path = _path(tool, arguments, work_dir)
    return "" if path is None else _read(path)[1]


def _path(tool: Tool | None, arguments: Any, work_dir: Path) -> Path | None:
    """Return the path that a call writes, if it is in the working folder and no device, pipe or folder."""
    subject = subject_of(tool)
    value = value_of_subject(tool, arguments)
    if subject is None or subject.kind != "path" or value is None:
        return None
    folder = work_dir.resolve()
    path = resolved_path(value, folder)
    if path is None or not path.is_relative_to(folder):
        return None
    try:
        return path if stat.S_ISREG(path.stat().st_mode) else None
    except FileNotFoundError:
        return path
    except OSError:
        return None


def _read(path: Path) -> tuple[bytes | None, str]:
    """Return a file, at most one byte more than what is compared, None if it cannot be read; and its digest."""
    place = f"{path}\0".encode("utf-8", "surrogateescape")
    try:
        descriptor = os.open(path, _READ)
    except OSError:
        return None, hashlib.sha256(b"absent " + place).hexdigest()
    with os.fdopen(descriptor, "rb") as file:
        data, found = file.read(MAX_BYTES + 1), os.fstat(descriptor)
    rest = f" {found.st_size} {found.st_mtime_ns}" if len(data) > MAX_BYTES else ""
    return data, hashlib.sha256(place + data + rest.encode()).hexdigest()


def _lines(text: str) -> list[str]:
    return text.splitlines(keepends=True)


def _ended(lines: Iterable[str]) -> Iterable[str]:
    """Yield the lines of a diff, each with its end."""
    for line in lines:
        yield line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n"
