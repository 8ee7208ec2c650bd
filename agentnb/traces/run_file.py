"""The log of one run on disk."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path

from agentnb.core.events import AnyEvent, RoundFinished, RunFinished
from agentnb.core.wire import encode

_sync = getattr(os, "fdatasync", os.fsync)


class RunFile:
    """Appends events, one write an event: what was appended outlives the process.

    With ``sync_rounds`` each round is also forced to the disk itself, so that it outlives the machine.
    """

    def __init__(self, path: Path, *, sync_rounds: bool = False, on_close: Callable[[], None] | None = None) -> None:
        self.path = path
        self._descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND, 0o600)
        self._size = 0
        self._sync_rounds = sync_rounds
        self._on_close = on_close
        self._open = True

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
            os.close(self._descriptor)
            if self._on_close is not None:
                self._on_close()
