"""The logs of runs as a Parquet file: a row an event, so that other tools can query them and nothing is lost.

Columns: run_id, parent_id (null if no run started it), seq, at (UTC, null where it is unknown), kind, event (the event's line
of the log, JSON). The file is made in pieces; only the events of one row group are held at a time.
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
ROWS = 10_000
"""Events of a row group, at most."""
MAX_BYTES = 32_000_000
"""Bytes of events after which a row group ends, however few they are."""


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
            writer.write_batch(pa.RecordBatch.from_pylist(rows, schema=schema), row_group_size=ROWS)
            yield from sink.taken()
    yield from sink.taken()


def _pyarrow() -> tuple[Any, Any]:
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError as error:
        problem = "A Parquet file cannot be written: that needs the package pyarrow"
        raise StoreError(
            problem, Install("agentnb[scale]", lead="Install it", rest=", or save the runs in another form")
        ) from error
    return pyarrow, pyarrow.parquet


def _row(event: AnyEvent) -> dict[str, Any]:
    line = encode(event).decode()
    kind = line.partition('"kind":"')[2].partition('"')[0]
    ids = {"run_id": event.run_id, "parent_id": event.parent_id}
    return {**ids, "seq": event.seq, "at": event.at, "kind": kind, "event": line.rstrip("\n")}


def _groups(rows: Iterator[dict[str, Any]]) -> Iterator[list[dict[str, Any]]]:
    """Yield the rows in groups that are small enough to be held."""
    for first in rows:
        group, size = [first], len(first["event"])
        for row in islice(rows, ROWS - 1):
            group.append(row)
            size += len(row["event"])
            if size > MAX_BYTES:
                break
        yield group


class _Pieces(io.RawIOBase):
    """A file that hands on what is written into it."""

    def __init__(self) -> None:
        super().__init__()
        self._written: list[bytes] = []
        self._length = 0

    def writable(self) -> bool:
        """Return that it can be written."""
        return True

    def tell(self) -> int:
        """Return how many bytes were written."""
        return self._length

    def write(self, data: Any) -> int:
        """Take the next bytes."""
        self._written.append(bytes(data))
        self._length += len(self._written[-1])
        return len(self._written[-1])

    def taken(self) -> Iterator[bytes]:
        """Yield what was written since, and forget it."""
        written, self._written = self._written, []
        yield from written
