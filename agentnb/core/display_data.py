"""What a tool returned as data for the eye, beside the words for the model: plain, small, and kept in the log."""

from __future__ import annotations

from collections.abc import Callable
from math import isinf, isnan
from typing import Any, TypeAlias

import msgspec

Cell: TypeAlias = str | int | float | bool | None
"""What may stand in a cell; None is a gap."""
MAX_PRECISE = 2**53
"""Whole numbers from here on are kept as text: not every reader of JSON has them to the last digit."""


class Table(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """Some of the rows and columns of a table, and how large it is."""

    columns: tuple[str, ...]
    """Names of the columns that are here, without those of the index."""
    rows: tuple[tuple[Cell, ...], ...]
    """The cells: those of the index first, then one for each of `columns`."""
    row_count: int
    """Of the whole table."""
    column_count: int
    """Of the whole table, without its index."""
    index: tuple[str, ...] = ()
    """Names of the columns that name a row; of most tables one, without a name."""
    gap: int = 0
    """Before which of `rows` others are left out; 0: if any, those at the end."""

    def mapped(self, change: Callable[[str], str]) -> Table:
        """The same table with each of its texts changed. What is no plain cell becomes text."""
        return Table(
            columns=tuple([change(str(name)) for name in self.columns]),
            rows=tuple([tuple([_mapped(cell, change) for cell in row]) for row in self.rows]),
            row_count=self.row_count,
            column_count=self.column_count,
            index=tuple([change(str(name)) for name in self.index]),
            gap=self.gap,
        )


def plain_number(value: float) -> Cell:
    """A number that JSON has as it is; a gap where it is none, text where it is endless or too long."""
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
