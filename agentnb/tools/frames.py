"""Data frames as a model reads them: their size, their columns with types and gaps, and some of their rows."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from agentnb.tools.foreign import is_of

MOST_ROWS = 30
"""Rows of a table that are shown; of a longer one the first and the last."""
MOST_COLUMNS = 20
"""Columns of which the rows are shown."""
MOST_NAMED = 40
"""Columns that are named with their types."""
LONGEST_CELL = 100
"""Characters of a cell."""
LONGEST_NAME = 40
MOST_COUNTED = 5_000_000
"""Cells that are looked through for gaps."""


def frame_text(value: Any) -> str | None:
    """A pandas or polars frame or series, or the frame of a Styler, in words; None for anything else."""
    if is_of(value, "pandas", "Styler"):
        value = value.data
    if is_of(value, "pandas", "DataFrame"):
        return _pandas_frame(value)
    if is_of(value, "pandas", "Series"):
        return _pandas_series(value)
    if is_of(value, "polars", "DataFrame"):
        return _polars_frame(value)
    if is_of(value, "polars", "Series"):
        name = f" {value.name}" if value.name else ""
        return f"Series{name}, {len(value)}, {value.dtype}\n{_polars_rows(value.to_frame())}"
    return None


def _pandas_frame(frame: Any) -> str:
    rows, columns = frame.shape
    named = frame.iloc[:, :MOST_NAMED]
    missing = named.isna().sum().tolist() if named.size <= MOST_COUNTED else [0] * named.shape[1]
    told = _columns(zip(named.columns, named.dtypes, missing, strict=True), columns)
    shown = frame.to_string(max_rows=MOST_ROWS, max_cols=MOST_COLUMNS, max_colwidth=LONGEST_CELL)
    return f"DataFrame, {rows} x {columns}\n{told}{shown}"


def _pandas_series(series: Any) -> str:
    name = f" {_name(series.name)}" if series.name is not None else ""
    missing = int(series.isna().sum()) if series.size <= MOST_COUNTED else 0
    gaps = f", {missing} missing" if missing else ""
    return f"Series{name}, {len(series)}, {series.dtype}{gaps}\n{series.to_string(max_rows=MOST_ROWS)}"


def _polars_frame(frame: Any) -> str:
    rows, columns = frame.shape
    missing = frame.null_count().row(0) if columns else ()
    named = [(name, dtype, gaps) for (name, dtype), gaps in zip(frame.schema.items(), missing, strict=True)]
    return f"DataFrame, {rows} x {columns}\n{_columns(named[:MOST_NAMED], columns)}{_polars_rows(frame)}"


def _polars_rows(frame: Any) -> str:
    shown = frame.select(frame.columns[:MOST_COLUMNS])
    half = MOST_ROWS // 2
    if len(shown) <= MOST_ROWS:
        rows = shown.rows()
    else:
        rows = [*shown.head(half).rows(), ["..."] * shown.width, *shown.tail(half).rows()]
    return _aligned([shown.columns, *rows])


def _columns(named: Iterable[tuple[Any, Any, int]], count: int) -> str:
    """A line that names the columns, with their types and how many of their values are missing."""
    told = [f"{_name(name)} ({dtype}{f', {gaps} missing' if gaps else ''})" for name, dtype, gaps in named]
    more = f" and {count - len(told)} more" if count > len(told) else ""
    return f"columns: {', '.join(told)}{more}\n" if told else ""


def _name(name: Any) -> str:
    return _cut(name, LONGEST_NAME)


def _cut(value: Any, most: int) -> str:
    text = " ".join(str(value).split())
    return text if len(text) <= most else text[: most - 3] + "..."


def _aligned(rows: Sequence[Iterable[Any]]) -> str:
    """Rows of cells as lines, each column as wide as its widest cell."""
    cells = [[_cut(cell, LONGEST_CELL) for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    return "\n".join("  ".join(map(str.ljust, row, widths)).rstrip() for row in cells)
