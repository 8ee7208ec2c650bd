"""Tables as Arrow and Parquet; pyarrow is imported on first use."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agentnb.core.redaction import FileRedactor
from agentnb.tables.columns import TIME, Column
from agentnb.tables.table_values import Values, frame_of_lists

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

_TYPES = {
    "str": "large_string",
    "int64": "int64",
    "Int64": "int64",
    "float64": "float64",
    "bool": "bool_",
    "boolean": "bool_",
}


_NEVER_MISSING = ("int64", "bool")


class Damaged(Exception):
    """Raised for a Parquet file that has changed or cannot be read."""


def schema_of(columns: Sequence[Column[Any]]) -> pa.Schema:
    """Return the Arrow schema of these columns."""
    import pyarrow as pa

    time = pa.timestamp("us", tz="UTC")
    return pa.schema(
        [(column.name, time if column.dtype == TIME else getattr(pa, _TYPES[column.dtype])()) for column in columns]
    )


def take_rows(values: Values[Any], columns: Sequence[Column[Any]], schema: pa.Schema) -> pa.Table:
    """Return the collected rows as the Arrow table of `Values.take`, and clear them."""
    import pyarrow as pa

    lists = values.take_lists()
    try:  # half the time of a data frame
        arrays = [pa.array(items, kind, from_pandas=True) for items, kind in zip(lists, schema.types, strict=True)]
        if not any(array.null_count for array, column in zip(arrays, columns, strict=True) if column.dtype in _NEVER_MISSING):
            return pa.Table.from_arrays(arrays, schema=schema)
    except (pa.ArrowException, TypeError, ValueError, OverflowError):  # values that pandas converts
        pass
    frame = frame_of_lists(lists, columns)
    return pa.Table.from_pandas(frame, schema=schema, preserve_index=False).replace_schema_metadata(None)


def to_frame(rows: pa.Table, columns: Sequence[Column[Any]]) -> pd.DataFrame:
    """Convert an Arrow table to the data frame that `Values.take` would have returned."""
    import pandas as pd

    series = {}
    for column in columns:
        series[column.name] = _series(rows.column(column.name), column.dtype)
        rows = rows.drop_columns(column.name)  # limit duplicate memory
    return pd.DataFrame(series, copy=False)


def _series(values: pa.ChunkedArray, dtype: str) -> pd.Series:
    import pandas as pd

    if dtype in ("Int64", "boolean"):
        return pd.Series(pd.array([], dtype=dtype).dtype.__from_arrow__(values))
    return pd.Series(values.to_pandas(), dtype=dtype)


def writer(path: Path, schema: pa.Schema) -> Any:
    """Return a writer for a new Parquet file with checksums, which reveal damage."""
    from pyarrow import parquet

    return parquet.ParquetWriter(path, schema, compression="zstd", write_page_checksum=True)


def read(path: Path, schema: pa.Schema, count: int) -> pa.Table:
    """Return all rows of a Parquet file.

    Raises `Damaged` if it is missing, if its columns or number of rows differ, or if it contains a key that has since
    become known.
    """
    import pyarrow as pa

    try:
        with _open(path, schema, count) as file:
            return _without_keys(file.read(), path)
    except (OSError, pa.ArrowException) as error:
        raise Damaged(str(path)) from error


def is_sound(path: Path, schema: pa.Schema, count: int) -> bool:
    """True if a Parquet file exists with these columns and this number of rows."""
    import pyarrow as pa

    try:
        _open(path, schema, count).close()
    except (OSError, pa.ArrowException, Damaged):
        return False
    return True


def batches(path: Path, ranges: Sequence[tuple[int, int]], schema: pa.Schema, count: int, most: int) -> Iterator[pa.Table]:
    """Yield the rows of a Parquet file in these ranges, at most ``most`` at a time. Raises `Damaged` as `read` does."""
    import pyarrow as pa

    try:
        with _open(path, schema, count) as file:
            begin = 0
            for batch in file.iter_batches(most):
                end = begin + batch.num_rows
                kept = [
                    batch.slice(max(first, begin) - begin, min(last, end) - max(first, begin))
                    for first, last in ranges
                    if first < end and last > begin
                ]
                if kept:  # in one piece, since each piece becomes a row group of the file
                    yield _without_keys(pa.Table.from_batches(kept).combine_chunks(), path)
                begin = end
    except (OSError, pa.ArrowException) as error:
        raise Damaged(str(path)) from error


def _without_keys(rows: pa.Table, path: Path) -> pa.Table:
    """Return the rows. Raises `Damaged` if any contains a key that became known after the rows were written."""
    redactor = FileRedactor()
    for column in rows.columns:
        for chunk in column.chunks:
            if str(chunk.type) == "large_string" and any(
                redactor.finds_key(buffer.to_pybytes()) for buffer in chunk.buffers() if buffer is not None
            ):
                raise Damaged(str(path))
    return rows


def _open(path: Path, schema: pa.Schema, count: int) -> Any:
    from pyarrow import parquet

    file = parquet.ParquetFile(path, page_checksum_verification=True)
    if file.metadata.num_rows != count or not file.schema_arrow.equals(schema):
        file.close()
        raise Damaged(str(path))
    return file
