"""A tool's returned table for display, beside the text for the model: plain, small, and kept in the log."""

from __future__ import annotations

from collections.abc import Callable
from math import isinf, isnan
from typing import Any, TypeAlias

import msgspec

from agentnb.core.schema.counts import Count

Cell: TypeAlias = str | int | float | bool | None
"""The value of a cell; None is a gap."""
MAX_PRECISE = 2**53
"""Whole numbers from here on are kept as text: not every JSON reader keeps their last digits."""


class Table(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """Some of the rows and columns of a table, and the size of the whole."""

    columns: tuple[str, ...]
    """Names of the columns included here, without the index."""
    rows: tuple[tuple[Cell, ...], ...]
    """The cells of each row: first the index, then one for each of `columns`."""
    row_count: Count
    """Rows of the whole table."""
    column_count: Count
    """Columns of the whole table, without its index."""
    index: tuple[str, ...] = ()
    """Names of the index columns; most tables have one, without a name."""
    gap: Count = 0
    """Index in `rows` before which rows are left out; 0: rows are left out at the end, if at all."""

    def mapped(self, change: Callable[[str], str]) -> Table:
        """Return the table with each text changed. Any value that is not a plain cell becomes text."""
        return Table(
            columns=tuple([change(str(name)) for name in self.columns]),
            rows=tuple([tuple([_mapped(cell, change) for cell in row]) for row in self.rows]),
            row_count=self.row_count,
            column_count=self.column_count,
            index=tuple([change(str(name)) for name in self.index]),
            gap=self.gap,
        )


def plain_number(value: float) -> Cell:
    """Return the number as JSON can hold it: a gap for NaN, text if it is infinite or too large."""
    if isinstance(value, int):
        return int(value) if -MAX_PRECISE < value < MAX_PRECISE else str(value)
    if isnan(value):
        return None
    return str(value) if isinf(value) else float(value)


def _mapped(cell: Any, change: Callable[[str], str]) -> Cell:
    if cell is None or isinstance(cell, bool):
        return cell
    if isinstance(cell, int | float):
        cell = plain_number(cell)
    return cell if cell is None or isinstance(cell, int | float) else change(str(cell))
