"""The table of tool calls."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import msgspec

from agentnb.core.inner_calls import with_inner
from agentnb.core.rounds import CallRecord
from agentnb.traces.files import RunSource, load_traces
from agentnb.traces.tables.columns import Column, table

if TYPE_CHECKING:
    import pandas as pd


class Row(NamedTuple):
    """A tool call, its run's id, its round, and its position in the round."""

    run_id: str
    round: int
    position: int
    record: CallRecord
    parent: str = ""
    """Id of the call whose tool made it, if one did."""


COLUMNS: list[Column[Row]] = [
    Column("run_id", "str", lambda row: row.run_id),
    Column("round", "int64", lambda row: row.round),
    Column("position", "int64", lambda row: row.position),
    Column("call_id", "str", lambda row: row.record.call.id),
    Column("name", "str", lambda row: row.record.call.name),
    Column("arguments", "str", lambda row: msgspec.json.encode(row.record.call.arguments).decode()),
    Column("success", "boolean", lambda row: row.record.success),
    Column("error_code", "str", lambda row: row.record.result.error_code if row.record.result else None),
    Column("rule", "str", lambda row: row.record.rule or None),
    Column("result", "str", lambda row: row.record.result.text if row.record.result else None),
    Column("seconds", "float64", lambda row: row.record.seconds),
    Column("traceback", "str", lambda row: row.record.traceback or None),
    Column("parent_call", "str", lambda row: row.parent or None),
]


def tool_calls(source: RunSource) -> pd.DataFrame:
    """Return one row per tool call: ``arguments`` as JSON, ``success`` as the tool reported (missing while it is open).

    ``rule``: the rule that blocked the call, if one did: ``max_tool_calls``, or one against repetition. ``parent_call``: the
    call whose tool made this one, if it was not the model; it has that call's position. ``traceback``:
    that of your own code, as the log holds it, if a tool raised.
    """
    return table(
        (
            Row(run.id, one.index, position, record, parent)
            for run in load_traces(source)
            for one in run.rounds
            for position, of_the_model in enumerate(one.records)
            for parent, record in with_inner((of_the_model,))
        ),
        COLUMNS,
    )
