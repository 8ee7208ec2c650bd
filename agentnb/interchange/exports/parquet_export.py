"""Run logs as a lossless Parquet file that other tools can query, with one row per event.

Columns: run_id, parent_id (null for a run that is not nested), seq, at (UTC, null if unknown), kind, event (the event's log
line, as JSON). The file is written in pieces, with only one row group of events in memory at a time.
"""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any

from agentnb.advice import Install
from agentnb.core.log.events import AnyEvent
from agentnb.core.log.wire import encode
from agentnb.detect.run import Run
from agentnb.errors import StoreError

NAME = "parquet"
TITLE = "Parquet file of run logs"
MAX_GROUP_ROWS = 10_000
"""Maximum events in a row group."""
MAX_GROUP_BYTES = 32_000_000
"""Bytes of events after which a row group ends, however many events it has."""


def pieces(runs: Iterable[Run]) -> Iterable[bytes]:
    """Yield the file. Raises `StoreError` if pyarrow is not installed."""
    pa, parquet = _pyarrow()
    columns = {"run_id": pa.string(), "parent_id": pa.string(), "seq": pa.int64(), "at": pa.timestamp("us", "UTC")}
    schema = pa.schema({**columns, "kind": pa.string(), "event": pa.large_string()})
    sink = _Pieces()
    with parquet.ParquetWriter(
        pa.PythonFile(sink, "w"), schema, compression="zstd", use_dictionary=["run_id", "kind"]
    ) as writer:
        for rows in _groups(_row(event) for run in runs for event in run.events):
            writer.write_batch(pa.RecordBatch.from_pylist(rows, schema=schema), row_group_size=MAX_GROUP_ROWS)
            yield from sink.drain()
    yield from sink.drain()


def _pyarrow() -> tuple[Any, Any]:
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError as error:
        problem = "Writing Parquet needs the pyarrow package"
        raise StoreError(
            problem, Install("agentnb[scale]", lead="Install it", rest=", or use another export format")
        ) from error
    return pyarrow, pyarrow.parquet


def _row(event: AnyEvent) -> dict[str, Any]:
    line = encode(event).decode()
    kind = line.partition('"kind":"')[2].partition('"')[0]
    ids = {"run_id": event.run_id, "parent_id": event.parent_id}
    return {**ids, "seq": event.seq, "at": event.at, "kind": kind, "event": line.rstrip("\n")}


def _groups(rows: Iterator[dict[str, Any]]) -> Iterator[list[dict[str, Any]]]:
    """Yield the rows in groups that are small enough to fit in memory."""
    for first in rows:
        group, size = [first], len(first["event"])
        for row in islice(rows, MAX_GROUP_ROWS - 1):
            group.append(row)
            size += len(row["event"])
            if size > MAX_GROUP_BYTES:
                break
        yield group


class _Pieces(io.RawIOBase):
    """A file that passes on the bytes written to it."""

    def __init__(self) -> None:
        super().__init__()
        self._written: list[bytes] = []
        self._length = 0

    def writable(self) -> bool:
        """Return True."""
        return True

    def tell(self) -> int:
        """Return the number of bytes written."""
        return self._length

    def write(self, data: Any) -> int:
        """Add the next bytes."""
        self._written.append(bytes(data))
        self._length += len(self._written[-1])
        return len(self._written[-1])

    def drain(self) -> Iterator[bytes]:
        """Yield and discard the bytes written since the last call."""
        written, self._written = self._written, []
        yield from written
