"""The before-images of a run on disk: the list of its changes, and the earlier contents of files."""

from __future__ import annotations

import errno
import os
import shutil
import stat
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from typing import NamedTuple

from agentnb.core.log.stores import BEFORE_IMAGES, MAX_KEPT_FILE_BYTES
from agentnb.store.before_images.records import (
    ABSENT,
    ChangesUndone,
    FileChanged,
    ListedChanges,
    Record,
    encode_record,
    read_records,
)
from agentnb.store.regular_files import BINARY

_NO_LINK = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0) | BINARY
_FOLDER = os.O_RDONLY | getattr(os, "O_DIRECTORY", 0) | _NO_LINK
_HAS_DESCRIPTORS = {os.open, os.mkdir, os.unlink} <= os.supports_dir_fd  # not on Windows
_IGNORE, _IGNORED = ".gitignore", b"*\n"


class _Opened(NamedTuple):
    """The open folder: a descriptor, or a path on systems without folder descriptors."""

    descriptor: int | None
    path: Path

    def open(self, name: str, flags: int) -> int:
        """Open a file in the folder; a new file is readable only by its owner."""
        target = name if self.descriptor is not None else str(self.path / name)
        return os.open(target, flags | _NO_LINK, 0o600, dir_fd=self.descriptor)

    def unlink(self, name: str) -> None:
        os.unlink(name if self.descriptor is not None else self.path / name, dir_fd=self.descriptor)


class PrivateFolder:
    """The folder for one run's before-images, alongside its log."""

    def __init__(self, store: Path, run_id: str, *, sync: bool = False) -> None:
        """``sync``: whether files are forced to disk."""
        self.path = store / f"{BEFORE_IMAGES}{run_id}"
        self._sync = sync

    @property
    def exists(self) -> bool:
        """True if it exists and is a folder."""
        with suppress(OSError):
            return stat.S_ISDIR(self.path.lstat().st_mode)
        return False

    def make(self) -> None:
        """Create the folder, unless it exists."""
        try:
            self.path.mkdir(0o700)
        except FileExistsError:
            return
        self.create(_IGNORE, _IGNORED)

    def create(self, name: str, data: bytes) -> None:
        """Write a new file atomically."""
        with self._open_folder() as folder:
            descriptor = folder.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
            try:
                try:
                    self._write(descriptor, data)
                finally:
                    os.close(descriptor)
            except OSError:
                with suppress(OSError):
                    folder.unlink(name)
                raise

    def remove(self, name: str) -> None:
        """Delete a file if it exists."""
        with self._open_folder() as folder, suppress(FileNotFoundError):
            folder.unlink(name)

    def append(self, name: str, line: bytes) -> None:
        """Append a line to a file. On failure, the file stays unchanged."""
        with self._open_folder() as folder:
            descriptor = folder.open(name, os.O_RDWR | os.O_CREAT | os.O_APPEND)
            try:
                size = os.fstat(descriptor).st_size
                if size and not _ends_with_line(descriptor, size):  # a process died while it wrote
                    line = b"\n" + line
                try:
                    self._write(descriptor, line)
                except OSError:
                    os.ftruncate(descriptor, size)
                    raise
            finally:
                os.close(descriptor)

    def read(self, name: str, max_bytes: int) -> bytes:
        """Return a file's content. Raises OSError on failure, and for anything but a regular file of at most ``max_bytes``."""
        with self._open_folder() as folder:
            descriptor = folder.open(name, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0))
            with os.fdopen(descriptor, "rb") as file:
                status = os.fstat(descriptor)
                if not stat.S_ISREG(status.st_mode) or status.st_size > max_bytes:
                    raise OSError(errno.EINVAL, "agentnb did not write it")
                return file.read(max_bytes)

    @property
    def size(self) -> int:
        """Total bytes of its files; 0 if the folder does not exist."""
        try:
            with os.scandir(self.path) as entries:
                return sum(entry.stat(follow_symlinks=False).st_size for entry in entries)
        except OSError:
            return 0

    def delete(self) -> int:
        """Delete the folder with its files, and return their total bytes. No-op if it does not exist."""
        try:
            is_folder = stat.S_ISDIR(self.path.lstat().st_mode)
        except FileNotFoundError:
            return 0
        if not is_folder:  # not created by agentnb
            self.path.unlink()
            return 0
        size = self.size
        shutil.rmtree(self.path)
        return size

    @contextmanager
    def _open_folder(self) -> Iterator[_Opened]:
        if not _HAS_DESCRIPTORS:
            if self.path.is_symlink():
                raise OSError(errno.ELOOP, "it is a link", str(self.path))
            yield _Opened(None, self.path)
            return
        descriptor = os.open(self.path, _FOLDER)
        try:
            if os.fstat(descriptor).st_mode & 0o077:
                with suppress(OSError):  # a file system without modes
                    os.fchmod(descriptor, 0o700)
            yield _Opened(descriptor, self.path)
        finally:
            os.close(descriptor)

    def _write(self, descriptor: int, data: bytes) -> None:
        view, done = memoryview(data), 0
        while done < len(view):
            done += os.write(descriptor, view[done:])
        if self._sync:
            os.fsync(descriptor)


def _ends_with_line(descriptor: int, size: int) -> bool:
    os.lseek(descriptor, size - 1, os.SEEK_SET)
    return os.read(descriptor, 1) == b"\n"


MAX_LIST_BYTES = 100_000_000
"""Maximum bytes of a list of changes."""
_LIST = "changes.jsonl"
NO_CHANGES = ListedChanges()


def folder_of_run(store: Path, run_id: str, *, sync: bool = False) -> PrivateFolder:
    """Return the folder of a run's before-images, in the folder of its log."""
    return PrivateFolder(store, run_id, sync=sync)


def digest(data: bytes | None) -> str:
    """Return the digest of a file's content, or `ABSENT` for a missing file."""
    return ABSENT if data is None else sha256(data).hexdigest()


def has_list(store: Path, run_id: str) -> bool:
    """True if the run has a list of changes. Its folder may hold only the standard error of a program."""
    folder = folder_of_run(store, run_id)
    return folder.exists and (folder.path / _LIST).is_file()


def listed_changes(store: Path, run_id: str) -> ListedChanges:
    """Return the listed changes of a run; empty if it has no list. Raises OSError if the list cannot be read."""
    folder = folder_of_run(store, run_id)
    if not folder.exists:
        return NO_CHANGES
    try:
        return read_records(folder.read(_LIST, MAX_LIST_BYTES), run_id)
    except FileNotFoundError:
        return NO_CHANGES


def write_record(folder: PrivateFolder, record: Record) -> None:
    """Append a record to a run's list."""
    folder.make()
    folder.append(_LIST, encode_record(record))


def read_image(store: Path, change: FileChanged) -> bytes:
    """Return a file's content before a change. Raises OSError if the copy is missing or has been changed."""
    if not change.image.isalnum():  # images have no other names
        raise OSError(errno.EINVAL, "it has no image")
    data = folder_of_run(store, change.run_id).read(change.image, MAX_KEPT_FILE_BYTES)
    if digest(data) != change.before:
        raise OSError(errno.EIO, "something else has changed its copy")
    return data


def note_undone(store: Path, run_id: str, numbers: Iterable[int]) -> None:
    """Record that these changes of a run have been undone."""
    write_record(folder_of_run(store, run_id), ChangesUndone(run_id=run_id, at=datetime.now(UTC), numbers=tuple(numbers)))
