"""The table of rounds."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import msgspec

from agentnb.core.rounds import WorkflowRound
from agentnb.core.usage import Usage
from agentnb.traces.files import RunSource, load_traces
from agentnb.traces.tables.columns import TIME, Column, table

if TYPE_CHECKING:
    import pandas as pd


class Row(NamedTuple):
    """A round, its run's id, and its usage."""

    run_id: str
    round: WorkflowRound
    usage: Usage


COLUMNS: list[Column[Row]] = [
    Column("run_id", "str", lambda row: row.run_id),
    Column("round", "int64", lambda row: row.round.index),
    Column("reason", "str", lambda row: row.round.reason),
    Column("status", "str", lambda row: row.round.status),
    Column("stop_reason", "str", lambda row: row.round.stop_reason),
    Column("text", "str", lambda row: row.round.text),
    Column("attempts", "int64", lambda row: 1 + row.round.failed_attempts),
    Column("compacted", "bool", lambda row: any(each.compacted is not None for each in row.round.compactions)),
    Column("recovered", "bool", lambda row: row.round.recovered),
    Column("tool_calls", "int64", lambda row: len(row.round.records)),
    Column("tool_errors", "int64", lambda row: sum(result.is_error for result in row.round.results)),
    Column("metadata", "str", lambda row: msgspec.json.encode(row.round.metadata).decode() if row.round.metadata else None),
    Column("input_tokens", "Int64", lambda row: row.usage.input),
    Column("output_tokens", "Int64", lambda row: row.usage.output),
    Column("cost", "float64", lambda row: row.usage.cost),
    Column("model_seconds", "float64", lambda row: row.round.model_seconds),
    Column("seconds", "float64", lambda row: row.round.seconds),
    Column("started_at", TIME, lambda row: row.round.started_at),
]


def rounds(source: RunSource) -> pd.DataFrame:
    """Return one row per round (a model call with its tool calls), including failed ones.

    ``compacted``: the conversation was compacted before it was sent; ``recovered``: the process died in the round, or right
    before, and another resumed it. ``attempts``: model calls, 1 if the first succeeded. ``metadata``: the metadata of the
    model's reply, as JSON; for a simulated persona, its fault and whether it followed the guidance.
    """
    return table(
        (Row(run.id, one, one.usage or Usage()) for run in load_traces(source) for one in run.rounds),
        COLUMNS,
    )
