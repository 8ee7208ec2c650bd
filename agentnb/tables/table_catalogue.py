"""The columns of all tables, as a table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from agentnb.errors import SettingsError, suggest_names
from agentnb.tables.columns import Column, columns_of, table
from agentnb.tables.events_table import TABLE as EVENTS
from agentnb.tables.guidance_table import TABLE as GUIDANCE
from agentnb.tables.loops_table import TABLE as LOOPS
from agentnb.tables.messages_table import TABLE as MESSAGES
from agentnb.tables.patterns_table import COLUMNS as OF_PATTERNS
from agentnb.tables.plans_table import TABLE as PLANS
from agentnb.tables.questions_table import TABLE as QUESTIONS
from agentnb.tables.rounds_table import TABLE as ROUNDS
from agentnb.tables.runs_table import TABLE as RUNS
from agentnb.tables.steps_table import TABLE as STEPS
from agentnb.tables.table_values import Table
from agentnb.tables.todos_table import TABLE as TODOS
from agentnb.tables.tool_calls_table import TABLE as TOOL_CALLS
from agentnb.tables.usage_table import TABLE as USAGE

if TYPE_CHECKING:
    import pandas as pd

OF_RUNS: Mapping[str, Table[Any]] = {
    entry.name: entry
    for entry in (RUNS, ROUNDS, MESSAGES, TOOL_CALLS, GUIDANCE, TODOS, LOOPS, USAGE, QUESTIONS, STEPS, PLANS, EVENTS)
}
"""Tables in which each row is about one run."""
TABLES: Mapping[str, Sequence[Column[Any]]] = {
    **{name: entry.columns for name, entry in OF_RUNS.items()},
    "patterns": OF_PATTERNS,
}
"""The columns of each table."""
NAMES = tuple(TABLES)
"""Names of the tables of runs."""


class Row(NamedTuple):
    """A row that describes one column of a table."""

    table: str
    column: Column[Any]


def columns(name: str | None = None) -> pd.DataFrame:
    """Return one row per column of this table, or of all tables: table, column, dtype, unit, meaning, source.

    Raises `SettingsError` for an unknown table.
    """
    if name is not None and name not in NAMES:
        raise SettingsError(f"There is no table {name!r}", suggest_names(str(name), NAMES))
    rows = [Row(table_name, column) for table_name in ([name] if name else NAMES) for column in TABLES[table_name]]
    return table(rows, COLUMNS)


COLUMNS: list[Column[Row]] = columns_of("columns")
