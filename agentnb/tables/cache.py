"""A table of a folder, kept beside its logs as Parquet files that renew themselves.

Each table has a folder of its own under ``.tables``: an index, which says for each file of the folder what it was when it was
read (size and times) and where its rows are, and parts, which are written once and never changed. A renewal reads only files
that are new or have changed. It replaces the index last and as a whole, so that a reader finds either state, and removes parts
that are no longer used an hour later, so that a reader of the former state finds them still.

Whatever is wrong with a cache, it is made anew: it holds nothing that the logs do not.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from hashlib import sha256
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from agentnb.errors import StoreError
from agentnb.interchange.files import SourceFile
from agentnb.interchange.trace_file import Problem
from agentnb.store.folder_cache import HOME, KEPT, Stamp, made_by, made_of, make_home, remove_torn, stamp_of
from agentnb.store.writing import write_whole
from agentnb.tables import arrow
from agentnb.tables.cache_parts import Index, Part, PartWriter
from agentnb.tables.frames import Table

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]  # it is a module or None

INDEX = "index.json"
LAYOUT = 5
"""Changes when the files of a cache, or values in them, change their meaning."""
_PART = re.compile(r"[0-9a-f]{32}\.parquet")


class Cached(NamedTuple):
    """The state of a cache: its parts, and the files of the folder that are in none, such as logs that are being written."""

    folder: Path
    parts: Sequence[Part]
    missing: Sequence[str]


class TableCache:
    """The cache of one table of one folder."""

    def __init__(self, home: Path, kind: str, table: Table[Any], files: Sequence[SourceFile]) -> None:
        """``kind``: tells apart ways of reading the same folder; ``files``: those it has, in the order of their rows."""
        inside = f"{home}{os.sep}"
        self.files = {file.name.removeprefix(inside): file for file in files}
        self._home = home
        self._table = table
        # Traces of other products are known by the names that their files were given: each spelling has a cache of its own.
        self._folder = home / HOME / f"{table.name}-{_digest(kind, str(home))[:8]}"
        self._made_by = _made_by(table)

    def current(self, *, wait: bool = False) -> Cached:
        """Return the cache, renewed. If it cannot be written, or another process is renewing it, more files are missing.

        ``wait``: wait for the other process. Raises what reading a file raises, if it stops the whole source.
        """
        stamps = self._stamps()
        index = self._index()
        if not _holds_all(index, stamps):
            try:
                with self._locked(wait) as is_ours:
                    index, stamps = self._index(), self._stamps()  # another process may have renewed it meanwhile
                    if is_ours and not _holds_all(index, stamps):
                        index = self._renewed(index, stamps)
            except StoreError:
                raise  # of a log
            except OSError:  # a folder or a disk that cannot be written
                index = self._index()
        whole = [part for part in index.parts if _is_whole(part, stamps)]
        if sum(len(part.entries) for part in whole) == len(self.files):
            return Cached(self._folder, whole, [])
        held = {entry.name for part in whole for entry in part.entries}
        return Cached(self._folder, whole, [name for name in self.files if name not in held])

    def discard(self) -> None:
        """Forget what is there: it is damaged."""
        with suppress(OSError):
            (self._folder / INDEX).unlink()

    def _stamps(self) -> dict[str, Stamp]:
        stamps = ((name, stamp_of(file.name)) for name, file in self.files.items())
        return {name: stamp for name, stamp in stamps if stamp is not None}

    # The index

    def _index(self) -> Index:
        """Return the index; an empty one if there is none of this folder and this version, or a part is missing."""
        empty = Index(self._made_by, made_of(self._home))
        try:
            index = msgspec.json.decode((self._folder / INDEX).read_bytes(), type=Index)
            sound = all(_PART.fullmatch(part.name) and self._size(part) == part.size for part in index.parts)
        except (OSError, msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            return empty
        return index if sound and (index.made_by, index.made_of) == (empty.made_by, empty.made_of) else empty

    def _size(self, part: Part) -> int:
        return (self._folder / part.name).stat().st_size

    # Renewing it

    @contextmanager
    def _locked(self, wait: bool) -> Iterator[bool]:
        """Make the folder and hold its lock; yield whether it is ours. Raises OSError if the folder cannot be written."""
        make_home(self._home)
        self._folder.mkdir(mode=0o700, exist_ok=True)
        with (self._folder / "lock").open("wb") as file:
            if fcntl is not None:
                try:
                    fcntl.flock(file, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
                except BlockingIOError:
                    yield False
                    return
                except OSError:  # a file system without locks: two renewals at once do the work twice, and the last one stays
                    pass
            yield True

    def _renewed(self, index: Index, stamps: Mapping[str, Stamp]) -> Index:
        """Write the parts that are new, and the index. A part stays if its files are unchanged, and it is not small."""
        held = {entry.name for part in index.parts for entry in part.entries if stamps.get(entry.name) == entry.stamp}
        fresh = self._fresh([name for name in stamps if name not in held])
        first = next(fresh, None)
        if first is None and all(_is_whole(part, stamps) for part in index.parts):
            return index  # what is missing is still being written
        again = [part for part in index.parts if part.is_small or not _is_whole(part, stamps)]
        writer = PartWriter(self._folder, self._table)
        try:
            for part in again:
                writer.take_over(part, held)
            for name, problems, runs in chain([] if first is None else [first], fresh):
                writer.add(name, stamps[name], problems, runs)
            new = writer.close()
        except BaseException as error:
            writer.abandon()
            if isinstance(error, arrow.Damaged):
                return self._renewed(Index(index.made_by, index.made_of), stamps)
            raise
        renewed = Index(index.made_by, index.made_of, [*(part for part in index.parts if part not in again), *new])
        try:
            write_whole(self._folder / INDEX, [msgspec.json.encode(renewed)])
        except StoreError as error:
            raise OSError(str(error)) from error
        self._clear({part.name for part in renewed.parts}, {part.name for part in again})
        return renewed

    def _fresh(self, names: Iterable[str]) -> Iterator[tuple[str, list[Problem], Iterator[Any]]]:
        """Yield the runs of each of these files, without logs that are being written: these are read each time."""
        for name in names:
            problems: list[Problem] = []
            runs = self.files[name].runs(problems, self._table.fold)
            first = next(runs, None)
            if first is None or not first.should_continue:
                yield name, problems, chain([] if first is None else [first], runs)

    def _clear(self, used: set[str], retired: set[str]) -> None:
        """Remove parts that nobody can be reading any more; those that were just retired count from now."""
        remove_torn(self._folder)
        with suppress(OSError):
            for path in self._folder.glob("*.parquet"):
                if path.name in retired:
                    os.utime(path)
                elif path.name not in used and path.stat().st_mtime < time.time() - KEPT:
                    path.unlink()


def _is_whole(part: Part, stamps: Mapping[str, Stamp]) -> bool:
    """Return whether no file of a part has changed, or is gone."""
    return all(stamps.get(entry.name) == entry.stamp for entry in part.entries)


def _holds_all(index: Index, stamps: Mapping[str, Stamp]) -> bool:
    count = sum(len(part.entries) for part in index.parts)
    return count == len(stamps) and all(_is_whole(part, stamps) for part in index.parts)


def _made_by(table: Table[Any]) -> str:
    """Return what a cache must have been made by: the versions of what decides about values."""
    columns = _digest(*(f"{column.name} {column.dtype}" for column in table.columns))
    return f"{made_by(LAYOUT)} {columns}"


def _digest(*words: str) -> str:
    return sha256("\n".join(words).encode("utf-8", "surrogateescape")).hexdigest()
