"""The log of one run on disk."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from time import sleep
from typing import BinaryIO
from weakref import WeakSet

from agentnb.core.events import AnyEvent, RoundFinished, RunFinished
from agentnb.core.wire import decode_lines, encode
from agentnb.traces.reading import check_file

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]  # it is a module or None

_sync = getattr(os, "fdatasync", os.fsync)
ENDS = frozenset({RoundFinished, RunFinished})
ATTEMPTS, PAUSE = 50, 0.005
"""Attempts to lock a log that others are reading, and seconds between them."""


def is_being_written(file: BinaryIO) -> bool:
    """Return whether a live run, in this process or another, holds this log. Always False on Windows, where it is unknown."""
    if fcntl is None:
        return False  # type: ignore[unreachable]  # reached on Windows
    try:
        fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:  # a file system without locks
        return False
    fcntl.flock(file, fcntl.LOCK_UN)
    return False


def _lock(descriptor: int) -> None:
    if fcntl is not None:
        with suppress(OSError):  # a file system without locks
            fcntl.flock(descriptor, fcntl.LOCK_EX)  # a reader's lock is released at once


def _lock_of_a_dead_process(descriptor: int) -> None:
    """Lock the log of a dead process, waiting for brief readers; raises `BlockingIOError` if a process is writing it."""
    if fcntl is None:
        return  # type: ignore[unreachable]  # reached on Windows
    for _ in range(ATTEMPTS):
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)  # raises if the holder is a writer
            fcntl.flock(descriptor, fcntl.LOCK_UN)
            sleep(PAUSE)
        except OSError:  # a file system without locks
            return
        else:
            return
    raise BlockingIOError(errno.EWOULDBLOCK, "It is being read all the time")


_open_files: WeakSet[RunFile] = WeakSet()


def _close_in_child() -> None:
    """Release our locks in a process that a tool forked, else our runs would seem live after our death."""
    for file in list(_open_files):
        os.close(file._descriptor)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_close_in_child)


class RunFile:
    """Appends events to the log of one run, one write per event, so that each survives the death of the process.

    With ``sync_rounds`` each round is also forced to the disk, so that it survives a crash of the machine.
    """

    def __init__(
        self,
        path: str | Path,
        *,
        sync_rounds: bool = False,
        on_close: Callable[[], None] | None = None,
        opened: int | None = None,
    ) -> None:
        """Create the file, which must not exist; or continue the ``opened`` one, locked and ending with a whole event."""
        self.path = path
        if opened is None:
            opened = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND, 0o600)
            _lock(opened)
        self._descriptor = opened
        self._size = os.fstat(opened).st_size
        self._sync_rounds = sync_rounds
        self._on_close = on_close
        self._open = True
        _open_files.add(self)

    @classmethod
    def reopened(cls, path: str | Path, *, sync_rounds: bool = False) -> tuple[RunFile, list[AnyEvent]]:
        """Reopen an interrupted run's file for appending, without a torn last line; return it and its events.

        Raises OSError, such as BlockingIOError if a process is writing it; `TraceError` if it is no log.
        """
        check_file(Path(path).stat(), path)  # else opening a pipe would wait
        descriptor = os.open(path, os.O_RDWR | os.O_APPEND)
        try:
            _lock_of_a_dead_process(descriptor)
            with open(descriptor, "rb", closefd=False) as file:
                lines = file.readlines()
            events = decode_lines(lines, str(path))
            os.ftruncate(descriptor, sum(map(len, lines[: len(events)])))
            if not lines[len(events) - 1].endswith(b"\n"):  # cut off right before its line end
                os.write(descriptor, b"\n")
            return cls(path, sync_rounds=sync_rounds, opened=descriptor), events
        except BaseException:
            os.close(descriptor)
            raise

    def append(self, event: AnyEvent) -> None:
        """Write the event. If that fails, the file ends with the previous event, and OSError is raised."""
        if not self._open:  # its descriptor may belong to another file by now
            raise OSError(errno.EBADF, f"{self.path} was closed")
        data = encode(event)
        done = 0
        try:
            while done < len(data):
                done += os.write(self._descriptor, data[done:] if done else data)
            if type(event) in ENDS:
                self._settle()
        except OSError:
            if done:
                os.ftruncate(self._descriptor, self._size)
            raise
        self._size += done

    def _settle(self) -> None:
        """Check at the end of a round that the file still exists, and force it to the disk if ``sync_rounds`` is set."""
        # Writes to a deleted file succeed, but nobody could read them. (Not all file systems count links.)
        if not os.fstat(self._descriptor).st_nlink and not Path(self.path).exists():
            raise FileNotFoundError(errno.ENOENT, "it was deleted", str(self.path))
        if self._sync_rounds:
            _sync(self._descriptor)

    def close(self) -> None:
        """Close the file. Does nothing the second time."""
        if self._open:
            self._open = False
            _open_files.discard(self)
            os.close(self._descriptor)
            if self._on_close is not None:
                self._on_close()
