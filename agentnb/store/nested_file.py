"""Logs of nested runs. Each is covered by the lock of its top-level run; if there are many, a log is open only during
writes.
"""

from __future__ import annotations

import errno
import os
import threading
from collections import OrderedDict
from datetime import datetime
from pathlib import Path

from agentnb.core.forks import after_fork
from agentnb.core.log.events import AnyEvent
from agentnb.core.log.wire import decode
from agentnb.errors import TraceError
from agentnb.store.own_logs import log_marks
from agentnb.store.regular_files import open_regular
from agentnb.store.run_file import (
    APPEND,
    CREATE,
    LogFile,
    RunFile,
    check_size,
    hold,
    is_being_written,
    lock,
    release,
    write_event,
)

MAX_OPEN = 32
"""Maximum number of nested logs that stay open; any more are opened for each write."""
_RECOVERED = b'\n{"kind":"run_recovered"'


class _OpenFiles:
    """Open descriptors of nested logs, at most `MAX_OPEN`, least recently used first."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self._descriptors: OrderedDict[int, int] = OrderedDict()

    def begin_anew(self) -> None:
        """Drop the descriptors and the lock, which another thread of the parent process may be holding."""
        for descriptor in self._descriptors.values():
            os.close(descriptor)
        self.__init__()  # type: ignore[misc]  # as new

    def of(self, file: NestedFile) -> int:
        """Return this log's descriptor, open for appending. The caller holds the lock while using it."""
        descriptor = self._descriptors.pop(id(file), None)
        if descriptor is None:
            descriptor = os.open(file.path, os.O_WRONLY | APPEND)
        self.put(file, descriptor)
        return descriptor

    def put(self, file: NestedFile, descriptor: int) -> None:
        """Keep a descriptor open; if there are too many, close the least recently used one."""
        self._descriptors[id(file)] = descriptor
        if len(self._descriptors) > MAX_OPEN:
            os.close(self._descriptors.popitem(last=False)[1])

    def take(self, file: NestedFile) -> int | None:
        """Remove and return this log's descriptor, if it is open."""
        return self._descriptors.pop(id(file), None)


_open_files = _OpenFiles()
after_fork(_open_files.begin_anew)


class NestedFile(LogFile):
    """Appends events to the log of a nested run.

    If this process writes the log of the parent run, in the same folder, that run's lock also covers this log until
    it is closed. Otherwise the log has its own lock, and stays open.
    """

    def __init__(self, path: str, *, sync_rounds: bool = False) -> None:
        """Create the file, which must not exist."""
        self.path = path
        self._sync_rounds = sync_rounds
        self._size = 0
        self._open = True
        self._holder: RunFile | None = None
        """The log whose lock covers this one, if there is one."""
        self._own: RunFile | None = None
        """Writes the log if it has its own lock."""
        self._marks = log_marks()
        descriptor = os.open(path, CREATE, 0o600)
        with _open_files.lock:
            _open_files.put(self, descriptor)

    @property
    def size(self) -> int:
        """Bytes of the log so far."""
        return self._size if self._own is None else self._own.size

    def append(self, event: AnyEvent) -> None:
        """Write the event. On failure, the file ends with the previous event, and OSError is raised."""
        if not self._open:
            raise OSError(errno.EBADF, f"{self.path} was closed")
        if self._holder is None and self._own is None:
            self._find_lock(event)
        if self._own is not None:
            self._own.append(event)
            return
        with _open_files.lock:
            descriptor = _open_files.of(self)
            if self._holder is not None and not self._holder.is_locked:
                check_size(descriptor, self.path, self._size)
            data = (event, self._size, self.path, self._sync_rounds, self._marks)
            self._size += write_event(descriptor, *data)

    def _find_lock(self, first: AnyEvent) -> None:
        if first.parent_id is not None:
            self._holder = hold(str(Path(self.path).with_name(f"{first.parent_id}.jsonl")), str(self.path))
        if self._holder is None:
            with _open_files.lock:
                descriptor = _open_files.of(self)
                _open_files.take(self)
            is_locked = lock(descriptor)
            self._own = RunFile(
                self.path, sync_rounds=self._sync_rounds, opened=descriptor, is_locked=is_locked, marks=self._marks
            )

    def close(self) -> None:
        """Close the file. No-op the second time."""
        if not self._open:
            return
        self._open = False
        with _open_files.lock:
            descriptor = _open_files.take(self)
        if descriptor is not None:
            os.close(descriptor)
        if self._own is not None:
            self._own.close()
        if self._holder is not None:
            release(self._holder, str(self.path))


class Holders:
    """Checks whether logs without their own lock are held by their parent runs, and caches the answers."""

    def __init__(self) -> None:
        self._known: dict[Path, tuple[bool, datetime | None, str | None]] = {}

    def hold(self, path: Path, parent_id: str | None, began: datetime | None) -> bool:
        """Return whether a live process holds this nested log, whose run ``began`` at this time."""
        passed: set[str] = set()
        while parent_id is not None and parent_id not in passed:
            passed.add(parent_id)
            is_held, resumed, parent_id = self._look(path.with_name(f"{parent_id}.jsonl"))
            if is_held:  # perhaps by a process that resumed the parent run after the nested run had died with another
                return began is None or resumed is None or began > resumed
        return False

    def _look(self, path: Path) -> tuple[bool, datetime | None, str | None]:
        """Return whether this log is locked, when its run was last resumed, and the id of its parent run."""
        if path not in self._known:
            try:
                self._known[path] = _state(path)
            except (OSError, TraceError, ValueError):
                self._known[path] = (False, None, None)
        return self._known[path]


def _state(path: Path) -> tuple[bool, datetime | None, str | None]:
    with open_regular(path) as file:
        if not is_being_written(file):
            return False, None, decode(file.readline()).parent_id
        data = file.read()
    position = data.rfind(_RECOVERED)
    return True, decode(data[position + 1 :].partition(b"\n")[0]).at if position >= 0 else None, None
