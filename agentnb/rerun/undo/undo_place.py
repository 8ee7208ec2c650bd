"""Files in a run's working directory, read and restored through descriptors, so that no link can lead outside."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from agentnb.store.before_images.images import digest
from agentnb.store.before_images.records import ABSENT
from agentnb.tools.builtin.files import confined
from agentnb.tools.builtin.files.personal_folder import leads_into
from agentnb.tools.builtin.files.protected import folder_check, is_protected_name, lock_git_parts
from agentnb.tools.builtin.files.replacing import is_read_only, replace_atomically
from agentnb.tools.tool import ToolRefused

PROTECTED, SWAPPED = "it belongs to git or to agentnb", "a link or a file has replaced its folder"
WHY = {"protected_path": PROTECTED, "link_changed": SWAPPED, "not_a_directory": SWAPPED}
"""Reasons why a folder is refused, by error code."""


class NotAllowed(Exception):
    """Raised, with the reason, for a path that must not be written to."""


class Place(NamedTuple):
    """A file's name within an open folder."""

    name: str
    folder: int
    exists: bool = True
    """True if its folder exists."""

    def digest(self) -> str:
        """Return the digest of the file as it is now. Raises `NotAllowed` for a link, a folder, a device or a
        read-only file.
        """
        if not self.exists:
            return ABSENT
        try:
            descriptor = os.open(self.name, confined.FILE, dir_fd=self.folder)
        except FileNotFoundError:
            return ABSENT
        except OSError as error:
            if error.errno in (errno.ELOOP, errno.EMLINK):
                raise NotAllowed("a link has replaced it") from None
            raise
        with os.fdopen(descriptor, "rb") as file:
            status = os.fstat(descriptor)
            if not stat.S_ISREG(status.st_mode):
                raise NotAllowed("it is no longer a file")
            if is_read_only(self.folder, self.name, status):
                raise NotAllowed("it is read-only")
            return digest(file.read())

    def put(self, data: bytes, mode: int | None) -> None:
        """Write the file atomically. ``mode``: its earlier permissions, reduced to those that it still has."""
        current_mode = os.stat(self.name, dir_fd=self.folder, follow_symlinks=False).st_mode
        with replace_atomically(self.folder, self.name, data, current_mode if mode is None else mode & current_mode):
            pass

    def remove(self) -> None:
        """Delete the file."""
        os.unlink(self.name, dir_fd=self.folder)


@contextmanager
def open_place(path: Path, work_dir: Path, store: Path) -> Iterator[Place]:
    """Open the folder of a file. Raises `NotAllowed` if it is not in ``work_dir``, is inside the ``store``, or cannot
    be written to.
    """
    location = confined.ConfinedPath(str(work_dir), _names_within(path, work_dir, store), str(path))
    name = location.names[-1]
    try:
        with (
            lock_git_parts(location),
            confined.open_folder(location, len(location.names) - 1, visit=folder_check(location)) as folder,
        ):
            yield Place(name, folder)
    except ToolRefused as refused:
        code = refused.outcome.error_code
        if code != "not_found" and not isinstance(refused.__cause__, FileNotFoundError):
            raise NotAllowed(WHY.get(code or "", str(refused))) from None
        yield Place(name, -1, exists=False)


def _names_within(path: Path, work_dir: Path, store: Path) -> tuple[str, ...]:
    """Return the parts of the path from the working directory to a file."""
    if os.open not in os.supports_dir_fd:  # Windows, where the file tools do not work either
        raise NotAllowed("this system cannot open files within folders")
    if not work_dir.is_absolute() or ".." in path.parts or not path.is_relative_to(work_dir) or path == work_dir:
        raise NotAllowed("it is outside the working folder of the run")
    if Path(os.path.realpath(work_dir)) != work_dir:
        raise NotAllowed("the working folder of the run has moved")
    if leads_into(str(path), store) or any(map(is_protected_name, path.parts)):
        raise NotAllowed(PROTECTED)
    return path.relative_to(work_dir).parts
