"""The table of events: the whole log, one row for each event."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from agentnb.core.log.event import Event
from agentnb.core.log.events import AnyEvent, RoundStarted, RunFinished
from agentnb.core.log.wire import encode
from agentnb.core.run.facts import RunFacts
from agentnb.core.run.fold import folded
from agentnb.interchange.files import RunSource
from agentnb.tables.columns import JSON, ROUNDS, TIME, UTC, Column, number_of
from agentnb.tables.folders import frame_of
from agentnb.tables.frames import Table

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
    Column("run_id", "str", lambda row: row.event.run_id, "The run", "event.run_id"),
    Column("seq", "int64", lambda row: row.event.seq, "Place in the log", "event.seq", "from 0"),
    Column("at", TIME, lambda row: row.event.at, "When it happened; missing where a trace does not say", "event.at", UTC),
    Column(
        "kind", "str", lambda row: row.kind, "Kind of the event, also of kinds that this version does not know", "event.kind"
    ),
    Column(
        "round",
        "Int64",
        lambda row: number_of(row.round),
        "The round in which it came; missing before the first round and at the end of the run",
        "round_started.index",
        ROUNDS,
    ),
    Column(
        "fields",
        "str",
        lambda row: row.fields,
        "Its own fields as the log has them (there, rounds count from 0); fields with their usual value are left out",
        "the event",
        JSON,
    ),
]


def _rows(run: RunFacts) -> Iterator[Row]:
    current: int | None = None
    for event in run.events:
        if isinstance(event, RoundStarted):
            current = event.index
        fields = msgspec.json.decode(encode(event))
        kind = fields["kind"]
        for name in IN_EVERY_EVENT:
            fields.pop(name, None)
        yield Row(event, None if isinstance(event, RunFinished) else current, kind, msgspec.json.encode(fields).decode())


TABLE = Table("events", COLUMNS, _rows, folded)


def events(source: RunSource, *, cache: bool | None = None) -> pd.DataFrame:
    """Return one row per event of the log, in order."""
    return frame_of(source, TABLE, cache)
