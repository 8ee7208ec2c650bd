"""Logs of cells on other machines, streamed as they grow, and stored here until the cells end."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

from agentnb.store.run_file import try_lock
from agentnb.store.store import Store

MAX_PIECE_BYTES = 32_768
"""Maximum size of a piece in bytes: kept small, since a Dask scheduler remembers the last thousand messages."""


class Piece(NamedTuple):
    """A part of a log."""

    run_id: str
    start: int
    """Offset of its first byte in the log."""
    data: bytes


class LogTail:
    """The unread parts of the logs in a folder, read while runs are still writing them."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._read: dict[str, int] = {}

    def pieces(self) -> Iterator[Piece]:
        """Yield everything that has been written since the last call."""
        for path in sorted(self._folder.glob("*.jsonl")):
            with path.open("rb") as file:
                file.seek(self._read.get(path.stem, 0))
                while data := file.read(MAX_PIECE_BYTES):
                    yield Piece(path.stem, file.tell() - len(data), data)
                    self._read[path.stem] = file.tell()


class StreamedLogs:
    """Stores the logs of active attempts, each named after its run. Thread-safe.

    A run's log is locked while it is active, so that the run and its nested runs count as running.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._run_ids: dict[str, set[str]] = {}
        """Run ids of the logs received for each attempt."""
        self._locks: dict[str, int] = {}
        self._lock = threading.Lock()

    def begin(self, attempt: str) -> None:
        """Start accepting pieces for an attempt."""
        with self._lock:
            self._run_ids[attempt] = set()

    def take(self, attempt: str, piece: Piece) -> None:
        """Append a piece. Pieces that leave a gap, do not fit on the disk, or arrive after the end are dropped."""
        with self._lock, suppress(OSError):
            if attempt not in self._run_ids:
                return
            flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
            descriptor = os.open(self._store.path(piece.run_id), flags, 0o600)
            self._run_ids[attempt].add(piece.run_id)
            try:
                if os.fstat(descriptor).st_size == piece.start:
                    os.write(descriptor, piece.data)
                if piece.run_id == attempt and attempt not in self._locks and try_lock(descriptor):
                    self._locks[attempt], descriptor = descriptor, -1
            finally:
                if descriptor >= 0:
                    os.close(descriptor)

    @contextmanager
    def ending(self, attempt: str) -> Iterator[set[str]]:
        """Stop accepting pieces for an attempt, and yield the ids of its logs, to be replaced or moved away in this block."""
        with self._lock:
            run_ids, lock = self._run_ids.pop(attempt, set()), self._locks.pop(attempt, None)
        try:
            yield run_ids
        finally:
            if lock is not None:
                os.close(lock)
