"""Paths confined to the working directory: links are followed, the place is checked, and then opened name by name.

Check and use are one: each name is opened within the folder opened before it and may not be a link, so a link that is put there
after the check is refused and never followed.
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
"""A pipe does not block, and a terminal does not become that of this process."""
_DOTS = frozenset(("", ".", ".."))

Visit = Callable[[int, int], None]
"""Looks at each folder on the way: its descriptor, and the number of names from the root to it."""


class Place(NamedTuple):
    """A place in the working directory, links followed."""

    root: str
    """The working directory, links followed."""
    names: tuple[str, ...]
    """The names from the root to it; empty for the root itself."""
    shown: str
    """The path as it was written."""

    @property
    def real(self) -> str:
        """The absolute path."""
        return os.path.join(self.root, *self.names)  # noqa: PTH118  # a Path takes long to make

    @property
    def relative(self) -> str:
        """The path from the root."""
        return "/".join(self.names) or "."


def check_descriptors() -> None:
    """Raise `SettingsError` where the system cannot open files relative to folders."""
    needed = {os.open, os.mkdir, os.stat, os.unlink, os.rename}
    if not needed <= os.supports_dir_fd or os.scandir not in os.supports_fd or not hasattr(os, "O_NOFOLLOW"):
        hint = "Run it on Linux, macOS or WSL, or give functions of your own: tools=[my_function]"
        raise SettingsError("The file tools cannot confine paths on this system: Python has no dir_fd here", hint)


def place_of(path: str, work_dir: Path | str) -> Place:
    """Return the place that a path means. Raises `ToolRefused` if it is outside the working directory."""
    try:
        root = os.path.realpath(work_dir)
        real = os.path.realpath(os.path.join(root, path))  # noqa: PTH118  # as above
        real.encode()
    except (OSError, ValueError) as error:  # a name too long, a zero character, half a character
        raise refusals.invalid_path(path) from error
    if is_personal(real):
        raise refusals.personal(path)
    if real == root:
        return Place(root, (), path)
    prefix = root if root.endswith("/") else f"{root}/"
    if not real.startswith(prefix):
        raise refusals.outside_work_dir(path)
    names = tuple(real[len(prefix) :].split("/"))
    if any(map(_is_of_before_images, names)):
        raise refusals.before_images(path)
    return Place(root, names, path)


def _is_of_before_images(name: str) -> bool:
    return name.casefold().startswith(BEFORE_IMAGES)


@contextmanager
def opened_folder(place: Place, depth: int, *, create: bool = False, visit: Visit | None = None) -> Iterator[int]:
    """Open the folder at the first ``depth`` names of a place. ``create``: missing folders are made."""
    try:
        folder = os.open(place.root, FOLDER)
    except OSError as error:
        raise refusals.no_work_dir(f"{place.root}: {error.strerror}") from error
    personal = personal_identity()
    try:
        for count in range(depth + 1):
            if count:
                inner = _opened_within(folder, place, count - 1, create=create)
                os.close(folder)
                folder = inner
            if identity_of(os.fstat(folder)) == personal:
                raise refusals.personal(place.shown)
            if visit is not None:
                visit(folder, count)
        yield folder
    finally:
        os.close(folder)


def _opened_within(folder: int, place: Place, count: int, *, create: bool) -> int:
    """Open the folder that the name at ``count`` is in an open folder."""
    name = place.names[count]
    try:
        return os.open(name, FOLDER, dir_fd=folder)
    except FileNotFoundError:
        if not create:
            raise refusals.missing(folder, "/".join(place.names[:count]), name, place.shown) from None
    except NotADirectoryError:  # a link, too
        if stat.S_ISLNK(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode):
            raise refusals.leads_elsewhere(place.shown) from None
        raise refusals.not_a_directory(place.shown, "/".join(place.names[: count + 1])) from None
    with suppress(FileExistsError):
        os.mkdir(name, dir_fd=folder)
    return os.open(name, FOLDER, dir_fd=folder)


@contextmanager
def opened_file(folder: int, place: Place) -> Iterator[tuple[int, os.stat_result]]:
    """Open the file at the last name of a place for reading. Raises `ToolRefused` for what is not an ordinary file."""
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


def _check_regular(mode: int, place: Place) -> None:
    if stat.S_ISLNK(mode):
        raise refusals.leads_elsewhere(place.shown)
    if not stat.S_ISREG(mode):
        raise refusals.not_regular(mode, place.shown)


@lru_cache(maxsize=8)
def _works_in_personal(work_dir: Path, _personal: Path) -> bool:
    return is_personal(os.path.realpath(work_dir))


def small_file(path: str, work_dir: Path, most: int) -> bytes | None:
    """Return the bytes of a file of at most ``most``, if no link is on the way to it; None for all else, whatever it is.

    Nearly all files that are read are such: to open name by name confines them, without a look at each name before.
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


def all_bytes(file: int, status: os.stat_result, place: Place, most: int = MAX_FILE_BYTES) -> bytes:
    """Return the bytes of an open file."""
    if status.st_size > most:
        raise refusals.too_large(status.st_size, most, place.shown)
    data = first_bytes(file, most + 1)
    if len(data) > most:  # it grows, or does not know its size
        raise refusals.too_large(len(data), most, place.shown)
    return data


def first_bytes(file: int, most: int) -> bytes:
    """Return the bytes at the beginning of an open file, at most so many."""
    pieces, remaining = [], most
    while remaining and (piece := os.read(file, remaining)):
        pieces.append(piece)
        remaining -= len(piece)
    return b"".join(pieces)


def as_text(data: bytes, shown: str) -> str:
    """Return the text of a file, exactly. Raises `ToolRefused` if it is not UTF-8. ``shown``: its path as it was written."""
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise refusals.not_text(data, error, shown) from error
