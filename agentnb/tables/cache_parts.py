"""Parts of a table cache: Parquet files, each with the rows of some of a folder's files."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from agentnb.interchange.trace_file import Problem
from agentnb.store.folder_cache import Stamp
from agentnb.store.regular_files import SMALL
from agentnb.store.store import FILES_AT_ONCE
from agentnb.tables import arrow
from agentnb.tables.table_values import Table, Values

if TYPE_CHECKING:
    import pyarrow as pa

MAX_ROWS, MAX_READ_BYTES = 200_000, 256_000_000
"""Number of rows, or bytes of logs, at which a part is closed."""
SMALL_ROWS, SMALL_READ_BYTES = MAX_ROWS // 8, MAX_READ_BYTES // 8
"""A part with fewer of both is merged with new rows. A worker's share has more."""
BATCH_ROWS, BATCH_READ_BYTES = 20_000, 16_000_000
"""Number of rows, or bytes of logs, after which rows are written to disk, and so the maximum held in memory."""


class Entry(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A file whose rows are in a part."""

    name: str
    stamp: Stamp
    rows: int
    problems: tuple[Problem, ...] = ()


class Part(msgspec.Struct, frozen=True, array_like=True):
    """A Parquet file with the rows of its entries, in order."""

    name: str
    size: int
    entries: list[Entry]

    @property
    def rows(self) -> int:
        """Number of rows."""
        return sum(entry.rows for entry in self.entries)

    @property
    def is_small(self) -> bool:
        """True if the part is to be merged with new rows."""
        return self.rows < SMALL_ROWS and sum(entry.stamp.size for entry in self.entries) < SMALL_READ_BYTES


class Index(msgspec.Struct, frozen=True):
    """The parts of a cache, and the versions and folder from which it was made."""

    made_by: str
    made_of: str
    parts: list[Part] = []


class PartWriter:
    """Writes parts in batches of rows."""

    def __init__(self, folder: Path, table: Table[Any]) -> None:
        self._folder, self._table = folder, table
        self._schema = arrow.schema_of(table.columns)
        self._values = Values(table.columns)
        self._waiting: list[Any] = []
        """Rows of small files that are added together, since columns are filled faster by several rows."""
        self._parts: list[Part] = []
        self._entries: list[Entry] = []
        self._file: Any = None
        self._name = ""
        self._unwritten = self._rows = self._read = 0
        """Log bytes of the unwritten rows; then the number of rows and the log bytes of the open part."""

    def take_over(self, part: Part, held: set[str]) -> None:
        """Copy the rows of a part's unchanged files. Raises `Damaged` if the part is damaged."""
        first = 0
        ranges: list[tuple[int, int]] = []
        for entry in part.entries:
            if entry.name in held:
                begin = ranges.pop()[0] if ranges and ranges[-1][1] == first else first
                ranges.append((begin, first + entry.rows))
            first += entry.rows
        for rows in arrow.batches(self._folder / part.name, ranges, self._schema, part.rows, BATCH_ROWS):
            self._write(rows)
        self._enter(entry for entry in part.entries if entry.name in held)

    def add_files(self, files: Iterable[tuple[str, list[Problem], Iterable[Any]]], stamps: Mapping[str, Stamp]) -> None:
        """Add the rows for files with these names, problems and runs."""
        for name, problems, runs in files:
            self.add(name, stamps[name], problems, runs)

    def adopt(self, parts: Iterable[Part]) -> None:
        """Add parts that a worker wrote."""
        self._parts += parts

    def add(self, name: str, stamp: Stamp, problems: list[Problem], runs: Iterable[Any]) -> None:
        """Add the rows for a file's runs."""
        count = 0
        for run in runs:
            rows = [*self._table.rows(run)]
            count += len(rows)
            self._waiting += rows
            if len(self._waiting) >= FILES_AT_ONCE or stamp.size >= SMALL:
                self._add_waiting()
            if self._values.rows >= BATCH_ROWS:
                self._flush()
        self._unwritten += stamp.size
        if self._unwritten >= BATCH_READ_BYTES:
            self._flush()
        self._enter([Entry(name, stamp, count, tuple(problems))])

    def _add_waiting(self) -> None:
        self._values.add(self._waiting)
        self._waiting = []

    def _enter(self, entries: Iterable[Entry]) -> None:
        for entry in entries:
            self._entries.append(entry)
            self._rows += entry.rows
            self._read += entry.stamp.size
        if self._rows >= MAX_ROWS or self._read >= MAX_READ_BYTES:
            self._end_part()

    def _flush(self) -> None:
        self._unwritten = 0
        self._add_waiting()
        if self._values.rows:
            self._write(arrow.take_rows(self._values, self._table.columns, self._schema))

    def _write(self, rows: pa.Table) -> None:
        if self._file is None:
            self._name = f"{os.urandom(16).hex()}.parquet"
            self._file = arrow.writer(self._folder / self._name, self._schema)
        self._file.write_table(rows)

    def _end_part(self) -> None:
        self._flush()
        if not self._entries:
            return
        if self._file is None:
            self._write(self._schema.empty_table())
        self._file.close()
        self._parts.append(Part(self._name, (self._folder / self._name).stat().st_size, self._entries))
        self._file, self._entries, self._rows, self._read = None, [], 0, 0

    def close(self) -> list[Part]:
        """Return the parts that were written."""
        self._end_part()
        return self._parts

    def abandon(self) -> None:
        """Remove the files that were written."""
        if self._file is not None:
            with suppress(Exception):
                self._file.close()
        for name in (self._name, *(part.name for part in self._parts)):
            with suppress(OSError):
                (self._folder / name).unlink()
