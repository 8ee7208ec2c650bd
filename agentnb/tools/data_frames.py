"""Data frames as text for a model (size, columns with types and missing values, and some rows), and as tables."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from numbers import Integral, Real
from typing import Any

from agentnb.core.display_data import Cell, Table, plain_number
from agentnb.core.messages import encodable
from agentnb.tools.defaults import MAX_COLUMNS, MAX_ROWS
from agentnb.tools.library_classes import is_of

MAX_NAMED = 40
"""Maximum number of columns listed with their types."""
LONGEST_CELL = 100
"""Maximum number of characters in a cell."""
LONGEST_NAME = 40
GAPS = frozenset({"NAType", "NaTType"})
"""Types of missing values in pandas."""
MIDNIGHT = " 00:00:00"
MAX_COUNTED = 5_000_000
"""Maximum number of cells for which missing values are counted."""


def frame_text(value: Any) -> str | None:
    """Return the text of a pandas or polars frame or series, or of a Styler's frame; None for any other value."""
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


def frame_table(value: Any) -> Table | None:
    """Return a small table of plain data for a value that `frame_text` accepts, or None for any other value."""
    if is_of(value, "pandas", "Styler"):
        value = value.data
    if is_of(value, "pandas", "Series"):
        value = value.to_frame("" if value.name is None else value.name)
    elif is_of(value, "polars", "Series"):
        value = value.to_frame()
    if is_of(value, "pandas", "DataFrame"):
        return _pandas_table(value)
    return _polars_table(value) if is_of(value, "polars", "DataFrame") else None


def _pandas_table(frame: Any) -> Table:
    shown = frame.iloc[:, :MAX_COLUMNS]
    index = shown.index
    half = MAX_ROWS // 2
    if len(shown) > MAX_ROWS:
        places = [*range(half), *range(len(shown) - half, len(shown))]
        shown, index = shown.iloc[places], index[places]
    levels = [index.get_level_values(level) for level in range(index.nlevels)]
    columns = [*levels, *(shown.iloc[:, position] for position in range(shown.shape[1]))]
    return Table(
        columns=tuple(map(_label, shown.columns)),
        rows=tuple(zip(*[_cells(column.tolist()) for column in columns], strict=True)),
        row_count=frame.shape[0],
        column_count=frame.shape[1],
        index=tuple([_label(name) if name is not None else "" for name in index.names]),
        gap=half if len(frame) > MAX_ROWS else 0,
    )


def _polars_table(frame: Any) -> Table:
    shown = frame.select(frame.columns[:MAX_COLUMNS])
    half = MAX_ROWS // 2
    rows = shown.rows() if len(shown) <= MAX_ROWS else [*shown.head(half).rows(), *shown.tail(half).rows()]
    return Table(
        columns=tuple(map(_label, shown.columns)),
        rows=tuple(zip(*[_cells(column) for column in zip(*rows, strict=True)], strict=True)),
        row_count=frame.shape[0],
        column_count=frame.shape[1],
        gap=half if len(shown) > MAX_ROWS else 0,
    )


def _cells(column: Sequence[Any]) -> list[Cell]:
    """Return the values of a column as plain data; timestamps become dates if all are at midnight."""
    cells = [_cell(value) for value in column]
    if any(type(value).__name__ == "Timestamp" for value in column):
        texts = [cell for cell in cells if isinstance(cell, str)]
        if all(cell.endswith(MIDNIGHT) for cell in texts):
            return [cell.removesuffix(MIDNIGHT) if isinstance(cell, str) else cell for cell in cells]
    return cells


def _cell(value: Any) -> Cell:
    if value is None or type(value).__name__ in GAPS:
        return None
    if isinstance(value, bool):
        return value
    if isinstance(value, Real):
        number = plain_number(int(value) if isinstance(value, Integral) else float(value))
        if not isinstance(number, str):
            return number
        value = number
    return encodable(_cut(value[: LONGEST_CELL * 10] if isinstance(value, str) else value, LONGEST_CELL))


def _label(name: Any) -> str:
    return encodable(_cut(" / ".join(map(str, name)) if isinstance(name, tuple) else name, LONGEST_NAME))


def _pandas_frame(frame: Any) -> str:
    rows, columns = frame.shape
    named = frame.iloc[:, :MAX_NAMED]
    missing = named.isna().sum().tolist() if named.size <= MAX_COUNTED else [0] * named.shape[1]
    heading = _columns(zip(named.columns, named.dtypes, missing, strict=True), columns)
    shown = frame.to_string(max_rows=MAX_ROWS, max_cols=MAX_COLUMNS, max_colwidth=LONGEST_CELL)
    return f"DataFrame, {rows} x {columns}\n{heading}{shown}"


def _pandas_series(series: Any) -> str:
    name = f" {_cut(series.name, LONGEST_NAME)}" if series.name is not None else ""
    missing = int(series.isna().sum()) if series.size <= MAX_COUNTED else 0
    gaps = f", {missing} missing" if missing else ""
    return f"Series{name}, {len(series)}, {series.dtype}{gaps}\n{series.to_string(max_rows=MAX_ROWS)}"


def _polars_frame(frame: Any) -> str:
    rows, columns = frame.shape
    missing = frame.null_count().row(0) if columns else ()
    named = [(name, dtype, gaps) for (name, dtype), gaps in zip(frame.schema.items(), missing, strict=True)]
    return f"DataFrame, {rows} x {columns}\n{_columns(named[:MAX_NAMED], columns)}{_polars_rows(frame)}"


def _polars_rows(frame: Any) -> str:
    shown = frame.select(frame.columns[:MAX_COLUMNS])
    half = MAX_ROWS // 2
    if len(shown) <= MAX_ROWS:
        rows = shown.rows()
    else:
        rows = [*shown.head(half).rows(), ["..."] * shown.width, *shown.tail(half).rows()]
    return _align([shown.columns, *rows])


def _columns(named: Iterable[tuple[Any, Any, int]], count: int) -> str:
    """Return a line listing the columns with their types and numbers of missing values."""
    names = [f"{_cut(name, LONGEST_NAME)} ({dtype}{f', {gaps} missing' if gaps else ''})" for name, dtype, gaps in named]
    more = f" and {count - len(names)} more" if count > len(names) else ""
    return f"columns: {', '.join(names)}{more}\n" if names else ""


def _cut(value: Any, most: int) -> str:
    text = " ".join(str(value).split())
    return text if len(text) <= most else text[: most - 3] + "..."


def _align(rows: Sequence[Iterable[Any]]) -> str:
    """Format rows of cells as aligned lines."""
    cells = [[_cut(cell, LONGEST_CELL) for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    return "\n".join("  ".join(map(str.ljust, row, widths)).rstrip() for row in cells)
