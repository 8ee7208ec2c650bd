"""Self-renewing Parquet cache of a folder's table, beside its logs.

Each table has a folder under ``.tables``. The folder contains an index, with the state of each file when it was read
(size and times) and the position of its rows, and parts, which are immutable. A renewal reads only new or changed
files, and replaces the index last and atomically, so that a reader sees either the old state or the new one. Unused
parts are removed an hour later, so that readers of the old state can still find them.

A cache with any defect is rebuilt, since all its data is in the logs.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from hashlib import sha256
from itertools import chain, zip_longest
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from agentnb.errors import StoreError
from agentnb.interchange.files import SourceFile, read_files
from agentnb.interchange.trace_file import Problem
from agentnb.settings import known_secrets
from agentnb.store.atomic_files import write_whole
from agentnb.store.folder_cache import HOME, KEPT, Stamp, made_by, made_of, make_home, remove_torn, stamp_of
from agentnb.tables import arrow
from agentnb.tables.cache_parts import Index, Part, PartWriter
from agentnb.tables.cache_shares import Share, split_files, start_workers
from agentnb.tables.reading_progress import show_progress
from agentnb.tables.table_values import Table

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]  # it is a module or None

INDEX = "index.json"
LAYOUT = 5
"""Increased when the format of the cache, or the meaning of its values, changes."""
_PART = re.compile(r"[0-9a-f]{32}\.parquet")


class CacheState(NamedTuple):
    """State of a cache: its parts, and the files that are in none of them, such as logs still being written."""

    folder: Path
    parts: Sequence[Part]
    missing: Sequence[str]


class TableCache:
    """The cache of one table of one folder."""

    def __init__(self, home: Path, kind: str, table: Table[Any], files: Sequence[SourceFile]) -> None:
        """``kind``: distinguishes between ways of reading the same folder; ``files``: the folder's files, in the order of their
        rows.
        """
        inside = f"{home}{os.sep}"
        self.files = {file.name.removeprefix(inside): file for file in files}
        self._home, self._kind, self._table = home, kind, table
        # Ids of foreign traces depend on their file names as given: each spelling has its own cache.
        self._folder = home / HOME / f"{table.name}-{_digest(kind, str(home))[:8]}"
        self.made_by = _made_by(table)

    def current(self, *, wait: bool = False) -> CacheState:
        """Return the cache after renewing it. If it is not writable, or another process is renewing it, it may lack more files.

        ``wait``: whether to wait for the other process. An error in reading a file propagates if it makes the entire source
        unreadable.
        """
        stamps = self._stamps()
        index = self._index()
        if not _holds_all(index, stamps):
            try:
                with self._lock(wait) as is_ours:
                    if (renewed := self._index()) != index:  # by another process meanwhile
                        index, stamps = renewed, self._stamps()
                    if is_ours and not _holds_all(index, stamps):
                        index = self._renew(index, stamps)
            except StoreError:
                raise  # from a log
            except OSError:  # folder or disk not writable
                index = self._index()
        intact = [part for part in index.parts if _is_whole(part, stamps)]
        if sum(len(part.entries) for part in intact) == len(self.files):
            return CacheState(self._folder, intact, [])
        held = {entry.name for part in intact for entry in part.entries}
        return CacheState(self._folder, intact, [name for name in self.files if name not in held])

    def discard(self) -> None:
        """Drop a damaged cache."""
        with suppress(OSError):
            (self._folder / INDEX).unlink()

    def _stamps(self) -> dict[str, Stamp]:
        stamps = ((name, stamp_of(file.name)) for name, file in self.files.items())
        return {name: stamp for name, stamp in stamps if stamp is not None}

    # The index

    def _index(self) -> Index:
        """Return the index, or an empty one if it is missing, lacks a part, or belongs to another folder or version."""
        empty = Index(self.made_by, made_of(self._home))
        try:
            index = msgspec.json.decode((self._folder / INDEX).read_bytes(), type=Index)
            sound = all(_PART.fullmatch(part.name) and self._size(part) == part.size for part in index.parts)
        except (OSError, msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            return empty
        return index if sound and (index.made_by, index.made_of) == (empty.made_by, empty.made_of) else empty

    def _size(self, part: Part) -> int:
        return (self._folder / part.name).stat().st_size

    # Renewal

    @contextmanager
    def _lock(self, wait: bool) -> Iterator[bool]:
        """Create the folder and try to lock it; yield True if this process has the lock. Raises OSError for a
        read-only folder.
        """
        make_home(self._home)
        self._folder.mkdir(mode=0o700, exist_ok=True)
        with (self._folder / "lock").open("wb") as file:
            if fcntl is not None:
                try:
                    fcntl.flock(file, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
                except BlockingIOError:
                    yield False
                    return
                except OSError:  # no file locks: parallel renewals repeat the work, the last one wins
                    pass
            yield True

    def _renew(self, index: Index, stamps: Mapping[str, Stamp]) -> Index:
        """Write the new parts and the index. Unchanged parts are kept unless they are small."""
        held = {entry.name for part in index.parts for entry in part.entries if stamps.get(entry.name) == entry.stamp}
        own, *shares = split_files({name: stamp.size for name, stamp in stamps.items() if name not in held})
        fresh = show_progress(self._read_changed(own), len(own), len(own) + sum(map(len, shares)))
        first = next(fresh, None)
        if first is None and not shares and all(_is_whole(part, stamps) for part in index.parts):
            return index  # missing files are still being written
        rewritten = [part for part in index.parts if part.is_small or not _is_whole(part, stamps)]
        try:
            with self._writer() as writer, start_workers([self._share(names) for names in shares]) as workers:
                for part in rewritten:
                    writer.take_over(part, held)
                writer.add_files(chain([] if first is None else [first], fresh), stamps)
                for names, worker in zip_longest(shares, workers):
                    parts = worker and worker.take_parts()
                    if parts is None:
                        writer.add_files(self._read_changed(names), stamps)
                    else:
                        writer.adopt(parts)
                new = writer.close()
        except arrow.Damaged:
            return self._renew(Index(index.made_by, index.made_of), stamps)
        renewed = Index(index.made_by, index.made_of, [*(part for part in index.parts if part not in rewritten), *new])
        try:
            write_whole(self._folder / INDEX, [msgspec.json.encode(renewed)])
        except StoreError as error:
            raise OSError(str(error)) from error
        self._clear({part.name for part in renewed.parts}, {part.name for part in rewritten})
        return renewed

    def _share(self, names: Iterable[str]) -> Share:
        files = [self.files[name] for name in names]
        return Share(self._home, self._kind, self._table.name, self.made_by, files, known_secrets())

    def write_parts(self) -> list[Part]:
        """Write parts with the rows of all files, for another process to put into the index."""
        stamps = self._stamps()
        with self._writer() as writer:
            writer.add_files(self._read_changed(stamps), stamps)
            return writer.close()

    @contextmanager
    def _writer(self) -> Iterator[PartWriter]:
        writer = PartWriter(self._folder, self._table)
        try:
            yield writer
        except BaseException:
            writer.abandon()
            raise

    def _read_changed(self, names: Iterable[str]) -> Iterator[tuple[str, list[Problem], Iterator[Any]]]:
        """Yield the runs in each of these files, except logs that are being written: these are read every time."""
        names = [*names]
        files = read_files([self.files[name] for name in names], self._table.fold)
        for name, (_, problems, runs) in zip(names, files, strict=True):
            first = next(runs, None)
            if first is None or not first.should_continue:
                yield name, problems, chain([] if first is None else [first], runs)

    def _clear(self, used: set[str], retired: set[str]) -> None:
        """Remove parts that no reader can still be using. The waiting time of newly retired parts starts now."""
        remove_torn(self._folder)
        with suppress(OSError):
            for path in self._folder.glob("*.parquet"):
                if path.name in retired:
                    os.utime(path)
                elif path.name not in used and path.stat().st_mtime < time.time() - KEPT:
                    path.unlink()


def _is_whole(part: Part, stamps: Mapping[str, Stamp]) -> bool:
    """True if none of a part's files is missing or has changed."""
    return all(stamps.get(entry.name) == entry.stamp for entry in part.entries)


def _holds_all(index: Index, stamps: Mapping[str, Stamp]) -> bool:
    count = sum(len(part.entries) for part in index.parts)
    return count == len(stamps) and all(_is_whole(part, stamps) for part in index.parts)


def _made_by(table: Table[Any]) -> str:
    """Return the version key of a cache, made of everything that determines its values."""
    columns = _digest(*(f"{column.name} {column.dtype}" for column in table.columns))
    return f"{made_by(LAYOUT)} {columns}"


def _digest(*words: str) -> str:
    return sha256("\n".join(words).encode("utf-8", "surrogateescape")).hexdigest()
