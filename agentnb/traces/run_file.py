"""The log of one run on disk."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO
from weakref import WeakSet

from agentnb.core.events import AnyEvent, RoundFinished, RunFinished
from agentnb.core.wire import encode

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]  # it is a module or None

_sync = getattr(os, "fdatasync", os.fsync)


def is_being_written(file: BinaryIO) -> bool:
    """Whether a run that is going on, in this process or another, holds this log. Not known on Windows: False."""
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
            fcntl.flock(descriptor, fcntl.LOCK_EX)  # a reader may look just now: it lets go at once


_open_files: WeakSet[RunFile] = WeakSet()


def _close_in_child() -> None:
    """A process that a tool forked must not hold the locks of our logs: they would seem to go on after our death."""
    for file in list(_open_files):
        os.close(file._descriptor)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_close_in_child)


class RunFile:
    """Appends events, one write an event: what was appended outlives the process.

    With ``sync_rounds`` each round is also forced to the disk itself, so that it outlives the machine.
    """

    def __init__(self, path: str | Path, *, sync_rounds: bool = False, on_close: Callable[[], None] | None = None) -> None:
        self.path = path
        self._descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND, 0o600)
        _lock(self._descriptor)
        self._size = 0
        self._sync_rounds = sync_rounds
        self._on_close = on_close
        self._open = True
        _open_files.add(self)

    def append(self, event: AnyEvent) -> None:
        """Write the event. On a failure the file ends with the event before, and OSError is raised."""
        if not self._open:  # its descriptor may be another file's by now
            raise OSError(errno.EBADF, f"{self.path} was closed")
        data = encode(event)
        done = 0
        try:
            while done < len(data):
                done += os.write(self._descriptor, data[done:] if done else data)
            if self._sync_rounds and isinstance(event, RoundFinished | RunFinished):
                _sync(self._descriptor)
        except OSError:
            if done:
                os.ftruncate(self._descriptor, self._size)
            raise
        self._size += done

    def close(self) -> None:
        """Close the file; a second time does nothing."""
        if self._open:
            self._open = False
            _open_files.discard(self)
            os.close(self._descriptor)
            if self._on_close is not None:
                self._on_close()
