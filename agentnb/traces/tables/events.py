"""The table of events: the whole log, one row for each event."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from agentnb.core.event import Event
from agentnb.core.events import AnyEvent, RoundStarted, RunFinished
from agentnb.core.wire import encode
from agentnb.detect.run import Run
from agentnb.traces.files import RunSource, load_traces
from agentnb.traces.tables.columns import TIME, Column, table

if TYPE_CHECKING:
    import pandas as pd

IN_EVERY_EVENT = ("kind", *Event.__struct_fields__)


class Row(NamedTuple):
    """An event, the round it came in, its kind, and its own fields as JSON."""

    event: AnyEvent
    round: int | None
    kind: str
    fields: str


COLUMNS: list[Column[Row]] = [
    Column("run_id", "str", lambda row: row.event.run_id),
    Column("seq", "int64", lambda row: row.event.seq),
    Column("at", TIME, lambda row: row.event.at),
    Column("kind", "str", lambda row: row.kind),
    Column("round", "Int64", lambda row: row.round),
    Column("fields", "str", lambda row: row.fields),
]


def events(source: RunSource) -> pd.DataFrame:
    """Return one row per event, in order, also of kinds that this version does not know.

    ``round``: the round in which it came, missing before the first and at the end of the run; ``fields``: what its kind says,
    as JSON; fields that are as usual are left out.
    """
    return table((row for run in load_traces(source) for row in _rows(run)), COLUMNS)


def _rows(run: Run) -> Iterator[Row]:
    current: int | None = None
    for event in run.events:
        if isinstance(event, RoundStarted):
            current = event.index
        fields = msgspec.json.decode(encode(event))
        kind = fields["kind"]
        for name in IN_EVERY_EVENT:
            fields.pop(name, None)
        yield Row(event, None if isinstance(event, RunFinished) else current, kind, msgspec.json.encode(fields).decode())
