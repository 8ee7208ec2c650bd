"""Logs of cells that run on other machines, as far as they have come: read there while they grow, kept here until the end."""

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
"""The most of a log that is sent at once: a Dask scheduler remembers the last thousand messages."""


class Piece(NamedTuple):
    """A part of a log."""

    run_id: str
    start: int
    """Its first byte in the log."""
    data: bytes


class LogTail:
    """The logs in a folder, in which runs write, as far as they were not read yet."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._read: dict[str, int] = {}

    def pieces(self) -> Iterator[Piece]:
        """Yield what was written since this was called last."""
        for path in sorted(self._folder.glob("*.jsonl")):
            with path.open("rb") as file:
                file.seek(self._read.get(path.stem, 0))
                while data := file.read(MAX_PIECE_BYTES):
                    yield Piece(path.stem, file.tell() - len(data), data)
                    self._read[path.stem] = file.tell()


class StreamedLogs:
    """Keeps the logs of attempts under way in a store, each named as its run. Thread-safe.

    The log of the run is locked meanwhile, so that the run counts as running; nested runs count as it does.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._run_ids: dict[str, set[str]] = {}
        """The logs that have come of each attempt."""
        self._locks: dict[str, int] = {}
        self._lock = threading.Lock()

    def begin(self, attempt: str) -> None:
        """Take pieces of an attempt from now on."""
        with self._lock:
            self._run_ids[attempt] = set()

    def take(self, attempt: str, piece: Piece) -> None:
        """Append a piece. One that does not follow on what has come, has no room, or comes after the end is left out."""
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
        """Take nothing more of an attempt; yield the ids of its logs, to be replaced by whole ones or put aside meanwhile."""
        with self._lock:
            run_ids, lock = self._run_ids.pop(attempt, set()), self._locks.pop(attempt, None)
        try:
            yield run_ids
        finally:
            if lock is not None:
                os.close(lock)
