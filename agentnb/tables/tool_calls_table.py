"""The table of tool calls: one row per call."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from agentnb.core.run.facts import RunFacts
from agentnb.core.run.fold import fold_events
from agentnb.core.run.inner_calls import with_inner
from agentnb.core.run.rounds import CallRecord, WorkflowRound
from agentnb.core.run.timeline import Tool, timeline
from agentnb.core.schema.counts import LARGEST
from agentnb.core.schema.json_schema import json_of
from agentnb.interchange.files import RunSource
from agentnb.tables.columns import Column, columns_of, success_of
from agentnb.tables.folders import frame_of
from agentnb.tables.table_values import Table

if TYPE_CHECKING:
    import pandas as pd

MAX_EXACT_INTEGER = 2**53
"""Limit below which a float can represent every integer."""


class Row(NamedTuple):
    """A tool call, its run, its round or step, its position there, and its start and end."""

    run: RunFacts
    round: WorkflowRound | None
    """The round, or None for a call made by a step."""
    step: str
    position: int
    record: CallRecord
    parent: str
    """Id of the call whose tool made it, if any."""
    started_at: datetime | None
    ended_at: datetime | None


COLUMNS: list[Column[Row]] = columns_of(
    "tool_calls",
    {
        "arguments": lambda row: json_of(row.record.call.arguments),
        "success": lambda row: success_of(row.record),
        "seconds": lambda row: None if row.record.result is None else row.record.seconds,
    },
)


def _rows(run: RunFacts) -> Iterator[Row]:
    if not (run.step_calls or any(current.records for current in run.rounds)):
        return
    parts: dict[str, deque[Tool]] = {}
    for part in timeline(run, Tool):
        if isinstance(part, Tool):
            parts.setdefault(part.call_id, deque()).append(part)
    for current in run.rounds:
        for position, of_the_model in enumerate(current.records):
            for parent, record in with_inner((of_the_model,)):
                yield Row(run, current, "", position, record, parent, *_times(record, parts))
    for position, of_step in enumerate(run.step_calls):
        for parent, record in with_inner((of_step.record,)):
            yield Row(run, None, of_step.step, position, record, parent, *_times(record, parts))


def _times(record: CallRecord, parts: Mapping[str, deque[Tool]]) -> tuple[datetime | None, datetime | None]:
    """Return the start and end of a call. Calls with the same id, such as those of a repeated step, are matched in order."""
    remaining = parts.get(record.call.id)
    if not remaining:  # never started
        return None, None
    start, end = remaining[0].begun, remaining.popleft().ended
    return None if start is None else start.at, None if end is None else end.at


TABLE = Table("tool_calls", COLUMNS, _rows, fold_events)


def tool_calls(source: RunSource, *, arguments: bool = False, cache: bool | None = None) -> pd.DataFrame:
    """Return one row per tool call, in order.

    ``arguments``: whether to add a column ``arguments.NAME`` for every argument that any call has. Integers, floats,
    strings and booleans are in columns of that type; other or mixed values are Python objects; arguments that a call
    lacks are missing values.
    """
    frame = frame_of(source, TABLE, cache)
    return _with_values(frame, [msgspec.json.decode(text) for text in frame["arguments"]]) if arguments else frame


def _with_values(frame: pd.DataFrame, arguments: Sequence[Any]) -> pd.DataFrame:
    import pandas as pd

    objects = [
        item if isinstance(item, dict) else {} for item in arguments
    ]  # foreign traces may have invalid JSON text instead
    names = dict.fromkeys(name for item in objects for name in item)
    columns = {}
    for name in names:
        values = [item.get(name) for item in objects]
        columns[f"arguments.{name}"] = pd.Series(values, dtype=_dtype_of(values))
    return pd.concat([frame, pd.DataFrame(columns, index=frame.index)], axis=1) if columns else frame


def _dtype_of(values: Sequence[Any]) -> str:
    """Return the dtype that leaves all of these values unchanged, with None as missing."""
    kinds = {type(value) for value in values if value is not None}
    if kinds == {int} and all(-LARGEST <= value <= LARGEST for value in values if value is not None):
        return "Int64"
    if kinds == {float} or (
        kinds == {int, float} and all(abs(value) <= MAX_EXACT_INTEGER for value in values if value is not None)
    ):
        return "float64"
    return {frozenset({bool}): "boolean", frozenset({str}): "str"}.get(frozenset(kinds), "object")
