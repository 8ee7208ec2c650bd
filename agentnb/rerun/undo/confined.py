"""Files in the working folder of a run, looked at and put back through descriptors, so that no link leads out of it."""

from __future__ import annotations

import errno
import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

from agentnb.store.before_images.images import digest
from agentnb.store.before_images.records import ABSENT

PROTECTED = frozenset({".git", ".agentnb", "git~1", "agentn~1"})
"""Names below which nothing is written, also those that Windows gives them."""
_NO_LINK = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
_FOLDER = os.O_RDONLY | getattr(os, "O_DIRECTORY", 0) | _NO_LINK
_HAS_DESCRIPTORS = {os.open, os.stat, os.unlink, os.rename} <= os.supports_dir_fd  # not on Windows


class NotAllowed(Exception):
    """A path that must not be written. Its text says why."""


class Place(NamedTuple):
    """The place of a file: its name in an open folder, or its path where there are no descriptors of folders."""

    name: str
    folder: int | None
    exists: bool = True
    """Whether its folder is there."""

    def digest(self) -> str:
        """Return the digest of the file as it is. Raises `NotAllowed` for a link, a folder or a device."""
        if not self.exists:
            return ABSENT
        try:
            descriptor = os.open(self.name, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | _NO_LINK, dir_fd=self.folder)
        except FileNotFoundError:
            return ABSENT
        except OSError as error:
            if error.errno in (errno.ELOOP, errno.EMLINK):
                raise NotAllowed("a link is in its place") from None
            raise
        with os.fdopen(descriptor, "rb") as file:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise NotAllowed("it is no longer a file")
            return digest(file.read())

    def put(self, data: bytes, mode: int | None) -> None:
        """Write the file, whole or not at all. ``mode``: its permissions; None for those that it has."""
        temporary = str(Path(self.name).with_name(f".{secrets.token_hex(8)}.agentnb"))
        if mode is None:
            mode = os.stat(self.name, dir_fd=self.folder, follow_symlinks=False).st_mode
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | _NO_LINK
        descriptor = os.open(temporary, flags, 0o600, dir_fd=self.folder)
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(data)
                if hasattr(os, "fchmod"):
                    os.fchmod(descriptor, mode & 0o777)
            os.replace(temporary, self.name, src_dir_fd=self.folder, dst_dir_fd=self.folder)
        except BaseException:
            with suppress(OSError):
                os.unlink(temporary, dir_fd=self.folder)
            raise

    def remove(self) -> None:
        """Delete the file."""
        os.unlink(self.name, dir_fd=self.folder)


@contextmanager
def opened_place(path: Path, work_dir: Path, store: Path) -> Iterator[Place]:
    """Open the folder of a file. Raises `NotAllowed` unless it may be written: in ``work_dir``, and not in the ``store``."""
    names = _names_within(path, work_dir, store)
    if not _HAS_DESCRIPTORS:
        if Path(os.path.realpath(path)) != path:
            raise NotAllowed("a link leads elsewhere")
        yield Place(str(path), None, path.parent.is_dir())
        return
    try:
        descriptor = os.open(work_dir, _FOLDER)
    except FileNotFoundError:
        yield Place(names[-1], None, exists=False)
        return
    try:
        for name in names[:-1]:
            try:
                inner = os.open(name, _FOLDER, dir_fd=descriptor)
            except FileNotFoundError:
                yield Place(names[-1], None, exists=False)
                return
            except OSError as error:
                if error.errno in (errno.ELOOP, errno.EMLINK, errno.ENOTDIR):
                    raise NotAllowed("a link leads elsewhere") from None
                raise
            os.close(descriptor)
            descriptor = inner
        yield Place(names[-1], descriptor)
    finally:
        os.close(descriptor)


def _names_within(path: Path, work_dir: Path, store: Path) -> tuple[str, ...]:
    """Return the names that lead from the working folder to a file."""
    if not work_dir.is_absolute() or ".." in path.parts or not path.is_relative_to(work_dir) or path == work_dir:
        raise NotAllowed("it is not in the folder that the run worked in")
    if Path(os.path.realpath(work_dir)) != work_dir:
        raise NotAllowed("the folder that the run worked in is elsewhere now")
    if path.is_relative_to(os.path.realpath(store)):
        raise NotAllowed("it is in the folder of run logs")
    names = path.relative_to(work_dir).parts
    protected = next((name for name in names if name.casefold().rstrip(" .") in PROTECTED), None)
    if protected is not None:
        raise NotAllowed(f"nothing is written below {protected}")
    return names
