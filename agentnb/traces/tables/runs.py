"""One row a run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agentnb.core.run import Run
from agentnb.traces.files import RunSource, load_traces
from agentnb.traces.tables.columns import TIME, Column, table

if TYPE_CHECKING:
    import pandas as pd

COLUMNS: list[Column[Run]] = [
    Column("run_id", "str", lambda run: run.id),
    Column("started_at", TIME, lambda run: run.started_at),
    Column("agent", "str", lambda run: run.agent),
    Column("model", "str", lambda run: run.model),
    Column("status", "str", lambda run: run.status),
    Column("stop_reason", "str", lambda run: run.stop_reason),
    Column("rounds", "int64", lambda run: len(run.rounds)),
    Column("tool_calls", "int64", lambda run: sum(len(one.records) for one in run.rounds)),
    Column("tool_errors", "int64", lambda run: sum(result.is_error for one in run.rounds for result in one.results)),
    Column("input_tokens", "Int64", lambda run: run.usage.input),
    Column("output_tokens", "Int64", lambda run: run.usage.output),
    Column("tokens_estimated", "bool", lambda run: run.usage.estimated),
    Column("cost", "float64", lambda run: run.cost),
    Column("seconds", "float64", lambda run: run.seconds if run.ended_at else None),
    Column("prompt", "str", lambda run: run.prompt),
    Column("text", "str", lambda run: run.text),
    Column("error", "str", lambda run: str(run.error) if run.error else None),
    Column("parent_id", "str", lambda run: run.parent_id),
    Column("continued_from", "str", lambda run: run.continued_from),
]


def runs(source: RunSource) -> pd.DataFrame:
    """One row a run: what it was asked, how it ended, what it took. ``cost`` in US dollars, ``seconds`` of wall time."""
    return table(load_traces(source), COLUMNS)
