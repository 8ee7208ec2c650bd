"""Opens trace files: regular files within a size limit. Other kinds of files are refused without waiting."""

from __future__ import annotations

import os
import stat
from io import BufferedReader, FileIO
from pathlib import Path

from agentnb.errors import TraceError
from agentnb.store.bounds import MAX_FILE_BYTES, BoundExceeded

_KINDS = (
    (stat.S_ISDIR, "a folder"),
    (stat.S_ISFIFO, "a pipe"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
)
BINARY = getattr(os, "O_BINARY", 0)
"""Flag that keeps Windows from translating line ends, which would make a log's size differ from the number of bytes written."""
_FLAGS = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0) | BINARY  # a pipe would wait for a writer


SMALL = 65_536
"""Size in bytes up to which a file is read by a single call, as most logs are; also the buffer size for reading lines."""


def open_regular(path: str | Path, max_bytes: int = MAX_FILE_BYTES, status: os.stat_result | None = None) -> BufferedReader:
    """Open a file of at most this many bytes for reading. ``status``: its status, if already known.

    Raises `TraceError` if it is not a regular file or is too large, OSError if it cannot be opened.
    """
    _status(path, max_bytes, status)
    descriptor = os.open(path, _FLAGS)
    try:
        check_file(os.fstat(descriptor), path, max_bytes)  # another file may have taken its path
    except TraceError:
        os.close(descriptor)
        raise
    return BufferedReader(FileIO(descriptor), SMALL)


def read_beginning(path: str | Path, max_bytes: int = MAX_FILE_BYTES, status: os.stat_result | None = None) -> bytes:
    """Return the first `SMALL` bytes of a file, or all of a smaller one, without the buffers and calls of a file object.

    ``status``, and errors: as for `open_regular`.
    """
    status = _status(path, max_bytes, status)
    descriptor = os.open(path, _FLAGS)
    try:
        return os.read(descriptor, min(status.st_size, SMALL))
    finally:
        os.close(descriptor)


def _status(path: str | Path, max_bytes: int, status: os.stat_result | None) -> os.stat_result:
    try:
        status = status or os.stat(path)  # noqa: PTH116  # of many thousand files: making a Path takes longer
    except ValueError:  # characters that no name may contain
        raise TraceError(f"{str(path)!a} is not a valid file name", "Name a run log, as in .agentnb/runs") from None
    check_file(status, path, max_bytes)  # first: opening a device may change it
    return status


def check_file(found: os.stat_result, path: str | Path, max_bytes: int = MAX_FILE_BYTES) -> None:
    """Raise `TraceError` if this is not a regular file within the size limit."""
    if not stat.S_ISREG(found.st_mode):
        kind = next((name for fits, name in _KINDS if fits(found.st_mode)), "something else")
        raise TraceError(f"{path} is {kind}, not a file", "Move it elsewhere; the other runs are not affected")
    if found.st_size > max_bytes:
        raise BoundExceeded(
            f"{path} is {found.st_size / 1e9:.1f} GB; only files up to {max_bytes / 1e9:g} GB are read",
            "Move it elsewhere; the other runs are not affected",
        )
