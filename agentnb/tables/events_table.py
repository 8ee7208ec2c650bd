"""The table of events: the complete log, one row per event."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from agentnb.core.log.event import Event
from agentnb.core.log.events import AnyEvent
from agentnb.core.log.wire import encode
from agentnb.core.run.facts import RunFacts
from agentnb.core.run.fold import by_round, fold_events
from agentnb.core.schema.json_schema import json_of
from agentnb.interchange.files import RunSource
from agentnb.tables.columns import Column, columns_of
from agentnb.tables.folders import frame_of
from agentnb.tables.table_values import Table

if TYPE_CHECKING:
    import pandas as pd

IN_EVERY_EVENT = ("kind", *Event.__struct_fields__)


class Row(NamedTuple):
    """An event, its round, its kind, and the fields of its kind as JSON."""

    event: AnyEvent
    round: int | None
    kind: str
    fields: str


COLUMNS: list[Column[Row]] = columns_of("events")


def _rows(run: RunFacts) -> Iterator[Row]:
    for index, event in by_round(run):
        fields = msgspec.json.decode(encode(event))
        kind = fields["kind"]
        for name in IN_EVERY_EVENT:
            fields.pop(name, None)
        yield Row(event, index, kind, json_of(fields))


TABLE = Table("events", COLUMNS, _rows, fold_events)


def events(source: RunSource, *, cache: bool | None = None) -> pd.DataFrame:
    """Return one row per event of the log, in order."""
    return frame_of(source, TABLE, cache)
