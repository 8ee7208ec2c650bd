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
from agentnb.tools.builtin.files import confined
from agentnb.tools.builtin.files.protected import folder_check, is_protected_name
from agentnb.tools.builtin.files.refusals import FileRefused
from agentnb.tools.builtin.files.replacing import NEW

OF_GIT = "it belongs to git or to the store of runs"


class NotAllowed(Exception):
    """A path that must not be written. Its text says why."""


class Place(NamedTuple):
    """The place of a file: its name in an open folder."""

    name: str
    folder: int
    exists: bool = True
    """Whether its folder is there."""

    def digest(self) -> str:
        """Return the digest of the file as it is. Raises `NotAllowed` for a link, a folder, a device and a read-only file."""
        if not self.exists:
            return ABSENT
        try:
            descriptor = os.open(self.name, confined.FILE, dir_fd=self.folder)
        except FileNotFoundError:
            return ABSENT
        except OSError as error:
            if error.errno in (errno.ELOOP, errno.EMLINK):
                raise NotAllowed("a link is in its place") from None
            raise
        with os.fdopen(descriptor, "rb") as file:
            mode = os.fstat(descriptor).st_mode
            if not stat.S_ISREG(mode):
                raise NotAllowed("it is no longer a file")
            if not mode & 0o222:
                raise NotAllowed("it is read-only")
            return digest(file.read())

    def put(self, data: bytes, mode: int | None) -> None:
        """Write the file, whole or not at all. ``mode``: its permissions; None for those that it has."""
        temporary = f".{secrets.token_hex(8)}.tmp"
        if mode is None:
            mode = os.stat(self.name, dir_fd=self.folder, follow_symlinks=False).st_mode
        descriptor = os.open(temporary, NEW, 0o600, dir_fd=self.folder)
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(data)
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
    check = folder_check(confined.Place(str(work_dir), names, str(path)))
    descriptor = -1
    try:
        for depth in range(len(names)):
            inner = _opened(names[depth - 1] if depth else str(work_dir), descriptor if depth else None)
            if inner is None:
                yield Place(names[-1], -1, exists=False)
                return
            if depth:
                os.close(descriptor)
            descriptor = inner
            check(descriptor, depth)
        yield Place(names[-1], descriptor)
    except FileRefused:
        raise NotAllowed(OF_GIT) from None
    finally:
        if descriptor >= 0:
            os.close(descriptor)


def _opened(name: str, within: int | None) -> int | None:
    """Open a folder; None if there is none."""
    try:
        return os.open(name, confined.FOLDER, dir_fd=within)
    except FileNotFoundError:
        return None
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.EMLINK, errno.ENOTDIR):
            raise NotAllowed("a link or a file is in place of its folder") from None
        raise


def _names_within(path: Path, work_dir: Path, store: Path) -> tuple[str, ...]:
    """Return the names that lead from the working folder to a file."""
    if os.open not in os.supports_dir_fd:  # Windows, where the file tools do not work either
        raise NotAllowed("this system cannot open files within folders")
    if not work_dir.is_absolute() or ".." in path.parts or not path.is_relative_to(work_dir) or path == work_dir:
        raise NotAllowed("it is not in the folder that the run worked in")
    if Path(os.path.realpath(work_dir)) != work_dir:
        raise NotAllowed("the folder that the run worked in is elsewhere now")
    if path.is_relative_to(os.path.realpath(store)) or any(map(is_protected_name, path.parts)):
        raise NotAllowed(OF_GIT)
    return path.relative_to(work_dir).parts
