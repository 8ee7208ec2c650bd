"""Atomic replacement of files: the new bytes are written to a temporary file that then replaces the old one."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from secrets import token_hex
from typing import NamedTuple

from agentnb.core.redaction import MASK, redact
from agentnb.tools.builtin.files import refusals
from agentnb.tools.builtin.files.confined import ConfinedPath, open_file, open_folder, read_all
from agentnb.tools.builtin.files.protected import check_names, check_store, folder_check, lock_git_parts
from agentnb.tools.tool import ToolContext, ToolRefused

NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0)


class _Old(NamedTuple):
    """A file before its replacement."""

    data: bytes
    status: os.stat_result


def replace_file(
    context: ToolContext, place: ConfinedPath, new_bytes: Callable[[bytes | None], bytes], *, create: bool = True
) -> bytes:
    """Replace a file with the bytes that ``new_bytes`` returns, and return them.

    ``new_bytes`` gets the old bytes, or None for a new file. ``create``: create a missing file and missing folders. Raises
    `ToolRefused`.
    """
    if not place.names:
        raise refusals.not_regular(stat.S_IFDIR, place.shown)
    check_names(place)
    check_store(place, context.store_folder)
    depth = len(place.names) - 1
    with (
        refusals.refusing(place.shown),
        lock_git_parts(place),
        open_folder(place, depth, create=create, visit=folder_check(place)) as folder,
    ):
        old = _old_file(folder, place, create=create)
        data = new_bytes(None if old is None else old.data)
        _replace(context, folder, place, old, data)
    return data


def _old_file(folder: int, place: ConfinedPath, *, create: bool) -> _Old | None:
    """Return the file before its replacement, or None if it is missing and ``create`` is true."""
    if create and _status(folder, place) is None:
        return None
    with open_file(folder, place) as (file, status):
        if is_read_only(folder, place.names[-1], status):
            advice = "Leave it as it is, or write to another path; the person can make it writable."
            raise ToolRefused("read_only", f"{place.shown} is read-only", advice)
        return _Old(read_all(file, status, place), status)


def is_read_only(folder: int, name: str, status: os.stat_result) -> bool:
    """True if a file in an open folder is write-protected, even if the superuser could write it."""
    return not status.st_mode & stat.S_IWUSR or not os.access(name, os.W_OK, dir_fd=folder)


def _replace(context: ToolContext, folder: int, place: ConfinedPath, old: _Old | None, data: bytes) -> None:
    with replace_atomically(folder, place.names[-1], data, None if old is None else old.status.st_mode):
        context.keep_before(Path(place.real), None if old is None else old.data, data)
        _check_unchanged(folder, place, old)


@contextmanager
def replace_atomically(folder: int, name: str, data: bytes, mode: int | None) -> Iterator[None]:
    """Write a temporary file in an open folder and rename it to ``name`` on exit. On an error, delete it.

    ``mode``: permissions, or None for the default. The setuid, setgid and sticky bits are dropped.
    """
    temporary = f".{token_hex(8)}.tmp"
    file = os.open(temporary, NEW, 0o666 if mode is None else 0o600, dir_fd=folder)
    try:
        try:
            remaining = memoryview(data)
            while remaining:
                remaining = remaining[os.write(file, remaining) :]
            if mode is not None:
                os.fchmod(file, mode & 0o777)
        finally:
            os.close(file)
        yield
        os.replace(temporary, name, src_dir_fd=folder, dst_dir_fd=folder)
    except BaseException:
        with suppress(OSError):
            os.unlink(temporary, dir_fd=folder)
        raise


def _check_unchanged(folder: int, place: ConfinedPath, old: _Old | None) -> None:
    """Raise `ToolRefused` if the file has changed since it was read."""
    current = _status(folder, place)
    if (None if current is None else _version(current)) != (None if old is None else _version(old.status)):
        problem = f"{place.shown} was not written: another program changed it meanwhile"
        raise ToolRefused("changed_meanwhile", problem, "Read it again before you change it.")


def _version(status: os.stat_result) -> tuple[int, ...]:
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_mode


def _status(folder: int, place: ConfinedPath) -> os.stat_result | None:
    try:
        return os.stat(place.names[-1], dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return None


def check_mark(text: str, old: bytes | None, place: ConfinedPath) -> None:
    """Raise `ToolRefused` if the text contains the placeholder for keys and would overwrite a key in the file."""
    if MASK not in text or old is None:
        return
    before = old.decode(errors="replace")
    if redact(before) is not before:
        problem = f"{place.shown} was not written: it contains a key, shown to you as {MASK}, which {MASK} would overwrite"
        advice = "Use edit_file on parts without the key, or ask the person to change the file."
        raise ToolRefused("key_mark", problem, advice)
