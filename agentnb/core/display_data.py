"""A table returned by a tool, for display beside the text for the model: plain, small, and stored in the log."""

from __future__ import annotations

from collections.abc import Callable
from math import isinf, isnan
from typing import Any, TypeAlias

import msgspec

from agentnb.core.schema.counts import Count

Cell: TypeAlias = str | int | float | bool | None
"""A cell value; ``None`` for a gap."""
MAX_PRECISE = 2**53
"""Integers of at least this size are stored as text, because some JSON readers lose their last digits."""


class Table(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """An excerpt of a table, with the size of the full table."""

    columns: tuple[str, ...]
    """Names of the included columns, without the index."""
    rows: tuple[tuple[Cell, ...], ...]
    """Cells by row: first the index, then one per column."""
    row_count: Count
    """Number of rows in the full table."""
    column_count: Count
    """Number of columns in the full table, without its index."""
    index: tuple[str, ...] = ()
    """Names of the index columns; most tables have a single, unnamed one."""
    gap: Count = 0
    """Index in `rows` before which rows are omitted; 0 if they are omitted only at the end."""

    def map_texts(self, change: Callable[[str], str]) -> Table:
        """Apply a function to each string. Any value that is not a plain cell becomes a string."""
        return Table(
            columns=tuple([change(str(name)) for name in self.columns]),
            rows=tuple([tuple([_map_cell(cell, change) for cell in row]) for row in self.rows]),
            row_count=self.row_count,
            column_count=self.column_count,
            index=tuple([change(str(name)) for name in self.index]),
            gap=self.gap,
        )


def plain_number(value: float) -> Cell:
    """Return the number in a form that JSON supports: a gap for NaN, text for infinite values and those that are too large."""
    if isinstance(value, int):
        return int(value) if -MAX_PRECISE < value < MAX_PRECISE else str(value)
    if isnan(value):
        return None
    return str(value) if isinf(value) else float(value)


def _map_cell(cell: Any, change: Callable[[str], str]) -> Cell:
    if cell is None or isinstance(cell, bool):
        return cell
    if isinstance(cell, int | float):
        cell = plain_number(cell)
    return cell if cell is None or isinstance(cell, int | float) else change(str(cell))
