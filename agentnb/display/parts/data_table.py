"""Tables that tools return, as HTML."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import msgspec

from agentnb.core.display_data import Cell, Table
from agentnb.core.messages import encodable
from agentnb.core.schema.nesting import is_too_deep
from agentnb.display.markup import NOTHING, Html, join_html, tag
from agentnb.display.texts.labels import pluralize
from agentnb.tools.defaults import MAX_COLUMNS, MAX_ROWS

MAX_CELL_CHARACTERS = 300
"""Maximum characters of JSON text in a cell before it becomes hard to read."""
MIN_OBJECTS = 2
MAX_DECIMALS = 6
"""Significant digits shown of a fractional number."""
MAX_INDENTED_LEVELS = 20
"""Maximum levels of lists and objects that are indented; anything deeper would be mostly indentation."""
GAP = "\N{EN DASH}"


def table_html(table: Table) -> Html:
    """Return the head and rows in a scrolling box, followed by how much of the table is visible."""
    columns = [[row[place] for row in table.rows] for place in range(_width(table))]
    numeric, texts = [*map(_is_numeric, columns)], [*map(_texts, columns)]
    rows = [_row([text[number] for text in texts], row, numeric, len(table.index)) for number, row in enumerate(table.rows)]
    if 0 < table.gap < len(rows):
        gap_text = f"… {pluralize(table.row_count - len(rows), 'row')} left out …"
        rows.insert(table.gap, tag("tr", "", tag("td", "data-cell data-gap", gap_text, colspan=str(max(1, len(columns))))))
    body = tag("table", "data", _head(table, numeric), tag("tbody", "", *rows))
    box = tag("div", "data-box", body, tabindex="0", role="region", aria_label=f"Table, {table_size(table)}")
    return join_html(box, tag("div", "data-size", table_size(table)))


def table_size(table: Table) -> str:
    """Return ``30 of 344 rows, 8 columns shown``; for a complete table, only its size."""
    rows, columns = len(table.rows), len(table.columns)
    parts = [_of(rows, table.row_count, "row"), _of(columns, table.column_count, "column")]
    is_whole = rows >= table.row_count and columns >= table.column_count
    return ", ".join(parts) + ("" if is_whole else " shown")


def table_of_objects(value: Any) -> Table | None:
    """Return a table for a list of flat objects that share the same keys, or None for anything else."""
    if not isinstance(value, list) or not MIN_OBJECTS <= len(value) <= MAX_ROWS:
        return None
    first = value[0]
    if not isinstance(first, dict) or not 1 <= len(first) <= MAX_COLUMNS:
        return None
    if not all(isinstance(row, dict) and row.keys() == first.keys() and all(map(_is_flat, row.values())) for row in value):
        return None
    rows = tuple([tuple([row[key] for key in first]) for row in value])
    return Table(tuple(first), rows, len(rows), len(first)).map_texts(encodable)


def pretty(value: Any) -> str:
    """Format a value as readable JSON: on one line if it is short or deeply nested, otherwise with one line per value."""
    short = encodable(json.dumps(value, ensure_ascii=False))
    if len(short) <= 80 or is_too_deep(value, MAX_INDENTED_LEVELS):
        return short
    try:
        return msgspec.json.format(short, indent=2)
    except msgspec.DecodeError:  # Python writes NaN, which JSON does not allow
        return encodable(json.dumps(value, ensure_ascii=False, indent=2))


def _is_flat(value: Any) -> bool:
    return value is None or isinstance(value, int | float) or (isinstance(value, str) and len(value) <= MAX_CELL_CHARACTERS)


def _of(shown: int, count: int, noun: str) -> str:
    return pluralize(count, noun) if shown >= count else f"{shown:,} of {pluralize(count, noun)}"


def _width(table: Table) -> int:
    """Return the number of cells in the shortest row, including the head. Cells beyond it have no heading."""
    return min([len(table.index) + len(table.columns), *map(len, table.rows)])


def _head(table: Table, numeric: Sequence[bool]) -> Html:
    names = (*table.index, *table.columns)[: len(numeric)]
    cells = [
        tag("th", "data-cell data-column data-number" if is_number else "data-cell data-column", name, scope="col")
        for name, is_number in zip(names, numeric, strict=True)
    ]
    return tag("thead", "", tag("tr", "", *cells)) if cells else NOTHING


def _row(texts: Sequence[str], row: Sequence[Cell], numeric: Sequence[bool], index: int) -> Html:
    cells = []
    for column, (text, is_number) in enumerate(zip(texts, numeric, strict=True)):
        kind = "data-cell data-number" if is_number else "data-cell"
        if column < index:
            cells.append(tag("th", f"{kind} data-index", text, scope="row"))
        else:
            missing = row[column] is None
            cells.append(tag("td", f"{kind} data-gap" if missing else kind, text, title="missing" if missing else None))
    return tag("tr", "", *cells)


def _is_numeric(column: Sequence[Cell]) -> bool:
    """True if the column has only numbers and gaps, with at least one number."""
    present = [cell for cell in column if cell is not None]
    return bool(present) and all(_is_number(cell) for cell in present)


def _is_number(cell: Cell) -> bool:
    return (isinstance(cell, int | float) and not isinstance(cell, bool)) or cell in ("inf", "-inf")


def _texts(column: Sequence[Cell]) -> list[str]:
    """Return the cells as text, giving all numbers in the column the same number of decimals."""
    decimals = max((_decimals(cell) for cell in column if isinstance(cell, float)), default=0)
    return [_text(cell, decimals) for cell in column]


def _text(cell: Cell, decimals: int) -> str:
    if cell is None:
        return GAP
    if not isinstance(cell, float):
        return str(cell)
    return f"{cell:.6g}" if _is_extreme(cell) else f"{cell:.{decimals}f}"


def _decimals(value: float) -> int:
    """Return the number of decimals to show: up to six significant digits, without trailing zeros."""
    if _is_extreme(value):
        return 0
    digits = f"{value:.{MAX_DECIMALS}g}"
    count = len(digits.partition(".")[2]) if "e" not in digits else 0
    return min(MAX_DECIMALS, count)


def _is_extreme(value: float) -> bool:
    return value != 0 and not 1e-4 <= abs(value) < 1e15
