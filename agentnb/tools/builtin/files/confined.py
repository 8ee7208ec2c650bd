"""Paths confined to the working directory: resolve links, check the path, then open it component by component.

Check and use are one operation: each component is opened relative to its parent and must not be a link, so a link created after
the check is refused and never followed.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

from agentnb import settings
from agentnb.core.log.stores import BEFORE_IMAGES
from agentnb.errors import SettingsError
from agentnb.tools.builtin.files import refusals
from agentnb.tools.builtin.files.personal_folder import is_personal, is_personal_file, personal_identity
from agentnb.tools.builtin.files.search_worker import identity_of
from agentnb.tools.defaults import MAX_FILE_BYTES

FOLDER = os.O_RDONLY | getattr(os, "O_DIRECTORY", 0) | getattr(os, "O_NOFOLLOW", 0)
ROOT = os.O_RDONLY | getattr(os, "O_DIRECTORY", 0)
FILE = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOCTTY", 0)
"""Flags for opening a file without blocking on a pipe or acquiring a controlling terminal."""
_DOTS = frozenset(("", ".", ".."))

Visit = Callable[[int, int], None]
"""Callback for each folder on the path: its descriptor and its depth below the root."""


class ConfinedPath(NamedTuple):
    """A resolved path in the working directory."""

    root: str
    """The working directory, with links resolved."""
    names: tuple[str, ...]
    """Path components from the root; empty for the root itself."""
    shown: str
    """The path as the caller wrote it."""

    @property
    def real(self) -> str:
        """The absolute path."""
        return os.path.join(self.root, *self.names)  # noqa: PTH118  # a Path is slow to create

    @property
    def relative(self) -> str:
        """The path relative to the root."""
        return "/".join(self.names) or "."


def check_descriptors() -> None:
    """Raise `SettingsError` if the system cannot open files relative to folder descriptors."""
    needed = {os.open, os.mkdir, os.stat, os.unlink, os.rename}
    if not needed <= os.supports_dir_fd or os.scandir not in os.supports_fd or not hasattr(os, "O_NOFOLLOW"):
        hint = "Use Linux, macOS or WSL, or pass your own functions: tools=[my_function]"
        raise SettingsError("The file tools cannot confine paths on this system: Python does not support dir_fd here", hint)


def confine(path: str, work_dir: Path | str) -> ConfinedPath:
    """Resolve a path. Raises `ToolRefused` if it is outside the working directory."""
    try:
        root = os.path.realpath(work_dir)
        real = os.path.realpath(os.path.join(root, path))  # noqa: PTH118  # as above
        real.encode()
    except (OSError, ValueError) as error:  # name too long, null character, lone surrogate
        raise refusals.invalid_path(path) from error
    if is_personal(real):
        raise refusals.personal(path)
    if real == root:
        return ConfinedPath(root, (), path)
    prefix = root if root.endswith("/") else f"{root}/"
    if not real.startswith(prefix):
        raise refusals.outside_work_dir(path)
    names = tuple(real[len(prefix) :].split("/"))
    if any(map(_is_of_before_images, names)):
        raise refusals.before_images(path)
    return ConfinedPath(root, names, path)


def _is_of_before_images(name: str) -> bool:
    return name.casefold().startswith(BEFORE_IMAGES)


@contextmanager
def open_folder(place: ConfinedPath, depth: int, *, create: bool = False, visit: Visit | None = None) -> Iterator[int]:
    """Open the folder at the first ``depth`` components of a path. ``create``: create missing folders."""
    try:
        folder = os.open(place.root, FOLDER)
    except OSError as error:
        raise refusals.no_work_dir(f"{place.root}: {error.strerror}") from error
    personal = personal_identity()
    try:
        for count in range(depth + 1):
            if count:
                inner = _open_within(folder, place, count - 1, create=create)
                os.close(folder)
                folder = inner
            if identity_of(os.fstat(folder)) == personal:
                raise refusals.personal(place.shown)
            if visit is not None:
                visit(folder, count)
        yield folder
    finally:
        os.close(folder)


def _open_within(folder: int, place: ConfinedPath, count: int, *, create: bool) -> int:
    """Open the component at index ``count`` as a folder, relative to its open parent."""
    name = place.names[count]
    try:
        return os.open(name, FOLDER, dir_fd=folder)
    except FileNotFoundError:
        if not create:
            raise refusals.missing(folder, "/".join(place.names[:count]), name, place.shown) from None
    except NotADirectoryError:  # or a link
        if stat.S_ISLNK(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode):
            raise refusals.leads_elsewhere(place.shown) from None
        raise refusals.not_a_directory(place.shown, "/".join(place.names[: count + 1])) from None
    with suppress(FileExistsError):
        os.mkdir(name, dir_fd=folder)
    return os.open(name, FOLDER, dir_fd=folder)


@contextmanager
def open_file(folder: int, place: ConfinedPath) -> Iterator[tuple[int, os.stat_result]]:
    """Open the last component of a path for reading. Raises `ToolRefused` unless it is a regular file."""
    name = place.names[-1]
    try:
        mode = os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode
    except FileNotFoundError:
        raise refusals.missing(folder, "/".join(place.names[:-1]), name, place.shown) from None
    _check_regular(mode, place)
    file = os.open(name, FILE, dir_fd=folder)
    try:
        status = os.fstat(file)
        _check_regular(status.st_mode, place)
        if is_personal_file(status):
            raise refusals.personal(place.shown)
        yield file, status
    finally:
        os.close(file)


def _check_regular(mode: int, place: ConfinedPath) -> None:
    if stat.S_ISLNK(mode):
        raise refusals.leads_elsewhere(place.shown)
    if not stat.S_ISREG(mode):
        raise refusals.not_regular(mode, place.shown)


@lru_cache(maxsize=8)
def _works_in_personal(work_dir: Path, _personal: Path) -> bool:
    return is_personal(os.path.realpath(work_dir))


def read_small_file(path: str, work_dir: Path, most: int) -> bytes | None:
    """Return the bytes of a regular file of at most ``most`` bytes, or None if the path has links or needs a closer look.

    Fast path for nearly all reads: opening component by component confines the path without checking each one first.
    """
    names = path.split("/")
    if (
        not _DOTS.isdisjoint(names)
        or BEFORE_IMAGES in path.casefold()
        or _works_in_personal(work_dir, settings.personal_folder())
    ):
        return None
    folder = file = -1
    personal = personal_identity()
    try:
        folder = os.open(work_dir, ROOT)
        for name in names[:-1]:
            inner = os.open(name, FOLDER, dir_fd=folder)
            os.close(folder)
            folder = inner
            if identity_of(os.fstat(folder)) == personal:
                return None
        if not stat.S_ISREG(os.stat(names[-1], dir_fd=folder, follow_symlinks=False).st_mode):
            return None
        file = os.open(names[-1], FILE, dir_fd=folder)
        status = os.fstat(file)
        if not stat.S_ISREG(status.st_mode) or status.st_size > most or status.st_nlink > 1:
            return None
        data = os.read(file, most + 1)
        return data if len(data) == status.st_size else None
    except (OSError, ValueError):
        return None
    finally:
        for descriptor in (folder, file):
            if descriptor >= 0:
                os.close(descriptor)


def read_all(file: int, status: os.stat_result, place: ConfinedPath) -> bytes:
    """Read an open file completely. Raises `ToolRefused` if it has more than `MAX_FILE_BYTES`."""
    if status.st_size > MAX_FILE_BYTES:
        raise refusals.too_large(status.st_size, MAX_FILE_BYTES, place.shown)
    data = read_beginning(file, MAX_FILE_BYTES + 1)
    if len(data) > MAX_FILE_BYTES:  # growing, or of unknown size
        raise refusals.too_large(len(data), MAX_FILE_BYTES, place.shown)
    return data


def read_beginning(file: int, most: int) -> bytes:
    """Read up to ``most`` bytes from the beginning of an open file."""
    pieces, remaining = [], most
    while remaining and (piece := os.read(file, remaining)):
        pieces.append(piece)
        remaining -= len(piece)
    return b"".join(pieces)


def as_text(data: bytes, shown: str) -> str:
    """Decode a file as UTF-8 text, unchanged. Raises `ToolRefused` if it is not UTF-8. ``shown``: its path as written."""
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise refusals.not_text(data, error, shown) from error
