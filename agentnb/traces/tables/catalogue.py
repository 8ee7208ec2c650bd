"""The columns of all tables as a table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from agentnb.errors import SettingsError, near
from agentnb.traces.tables.columns import Column, table
from agentnb.traces.tables.events import COLUMNS as OF_EVENTS
from agentnb.traces.tables.guidance import COLUMNS as OF_GUIDANCE
from agentnb.traces.tables.loops import COLUMNS as OF_LOOPS
from agentnb.traces.tables.messages import COLUMNS as OF_MESSAGES
from agentnb.traces.tables.patterns import COLUMNS as OF_PATTERNS
from agentnb.traces.tables.questions import COLUMNS as OF_QUESTIONS
from agentnb.traces.tables.rounds import COLUMNS as OF_ROUNDS
from agentnb.traces.tables.runs import COLUMNS as OF_RUNS
from agentnb.traces.tables.todos import COLUMNS as OF_TODOS
from agentnb.traces.tables.tool_calls import COLUMNS as OF_TOOL_CALLS
from agentnb.traces.tables.usage import COLUMNS as OF_USAGE

if TYPE_CHECKING:
    import pandas as pd

TABLES: Mapping[str, Sequence[Column[Any]]] = {
    "runs": OF_RUNS,
    "rounds": OF_ROUNDS,
    "messages": OF_MESSAGES,
    "tool_calls": OF_TOOL_CALLS,
    "guidance": OF_GUIDANCE,
    "todos": OF_TODOS,
    "loops": OF_LOOPS,
    "usage": OF_USAGE,
    "questions": OF_QUESTIONS,
    "events": OF_EVENTS,
    "patterns": OF_PATTERNS,
}
"""The columns of each table."""
NAMES = tuple(TABLES)
"""The names of the tables that are made of runs."""


class Row(NamedTuple):
    """A column of a table."""

    table: str
    column: Column[Any]


def columns(name: str | None = None) -> pd.DataFrame:
    """Return one row per column of the table with this name, or of all: table, column, dtype, unit, meaning, source.

    Raises `SettingsError` if there is no such table.
    """
    if name is not None and name not in NAMES:
        raise SettingsError(f"There is no table {name!r}", near(str(name), NAMES))
    rows = [Row(each, column) for each in ([name] if name else NAMES) for column in TABLES[each]]
    return table(rows, COLUMNS)


COLUMNS: list[Column[Row]] = [
    Column("table", "str", lambda row: row.table, "Name of the table", ""),
    Column("column", "str", lambda row: row.column.name, "Name of the column", ""),
    Column("dtype", "str", lambda row: row.column.dtype, "Its pandas dtype", ""),
    Column("unit", "str", lambda row: row.column.unit, "Its unit, or what its numbers count", ""),
    Column("meaning", "str", lambda row: row.column.meaning, "What it holds", ""),
    Column("source", "str", lambda row: row.column.source, "Where that comes from", ""),
]
