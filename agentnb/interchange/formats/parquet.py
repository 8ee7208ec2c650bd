"""Parquet files saved by agentnb, with one row per event."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from io import BytesIO
from itertools import groupby
from typing import Any

from agentnb.detect.run import Run
from agentnb.interchange.formats.agentnb_log import run_of_lines
from agentnb.interchange.trace_file import TraceFile
from agentnb.store.store import LOG_BEGINS

NAME = "parquet"
TITLE = "Parquet file of run logs"
RECORDS_END = "as in the log"
COLUMNS = ("run_id", "event")
"""The columns that are read; the others are for queries."""
FIRST_EVENT_START = LOG_BEGINS.decode()
"""The start of a run's first event."""
BATCH_ROWS = 1_000
"""Number of rows read at a time."""


def sniff(file: TraceFile) -> str:
    """Return an empty string if the file has this format, otherwise what is missing."""
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        return "reading Parquet needs the pyarrow package: pip install 'agentnb[scale]'"
    try:
        with _open(file) as parquet_file:
            missing = [name for name in COLUMNS if name not in parquet_file.schema_arrow.names]
    except (pyarrow.ArrowException, OSError) as error:
        return f"it cannot be read ({error})"
    return f"it has no column {', '.join(missing)}" if missing else ""


def read(file: TraceFile) -> Iterator[Run]:
    """Yield the runs in the order of the file."""
    with _open(file) as parquet_file:
        for (run_id, _), rows in groupby(_number_runs(_rows(file, parquet_file)), key=lambda row: row[0]):
            with file.guard(f"run {run_id}"):
                yield run_of_lines([line.encode() + b"\n" for _, line in rows], f"{file.name}, run {run_id}")


def _number_runs(rows: Iterator[tuple[str, str]]) -> Iterator[tuple[tuple[str, int], str]]:
    """Yield each event with its run id and a number that distinguishes runs with the same id."""
    number = 0
    for run_id, line in rows:
        number += line.startswith(FIRST_EVENT_START)
        yield (run_id, number), line


def _rows(file: TraceFile, whole: Any) -> Iterator[tuple[str, str]]:
    import pyarrow

    try:
        for batch in whole.iter_batches(BATCH_ROWS, columns=list(COLUMNS)):
            yield from zip(*[batch.column(name).to_pylist() for name in COLUMNS], strict=True)
    except (pyarrow.ArrowException, OSError) as error:
        file.problem(f"It cannot be read ({error})")


@contextmanager
def _open(file: TraceFile) -> Iterator[Any]:
    from pyarrow.parquet import ParquetFile

    with file.open() as source, ParquetFile(source if source.seekable() else BytesIO(file.whole())) as parquet_file:
        yield parquet_file
