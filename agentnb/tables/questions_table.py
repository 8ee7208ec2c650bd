"""The table of questions: one row per question asked of the person."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from agentnb.core.questions import AskedQuestion
from agentnb.core.run.facts import RunFacts
from agentnb.core.run.fold import fold_events
from agentnb.core.schema.json_schema import json_of
from agentnb.interchange.files import RunSource
from agentnb.tables.columns import Column, columns_of
from agentnb.tables.folders import frame_of
from agentnb.tables.former_columns import with_former_columns
from agentnb.tables.table_values import Table

if TYPE_CHECKING:
    import pandas as pd


class Row(NamedTuple):
    """A question, the id of its run, and the tool that asked it."""

    run_id: str
    asked: AskedQuestion
    tool: str | None


COLUMNS: list[Column[Row]] = columns_of(
    "questions",
    {
        "schema": lambda row: json_of(row.asked.question.schema),
        "answer": lambda row: json_of(row.asked.answer) if row.asked.outcome == "answered" else None,
        "answered_by": lambda row: row.asked.by if row.asked.has_answer else None,
        "answered_at": lambda row: row.asked.closed_at if row.asked.outcome != "withdrawn" else None,
    },
)


def _rows(run: RunFacts) -> Iterator[Row]:
    if not run.questions:
        return
    tools = {(item.index, record.call.id): record.call.name for item in run.rounds for record in item.records}
    of_steps = {item.record.call.id: item.record.call.name for item in run.step_calls}
    for asked in run.questions:
        yield Row(run.id, asked, tools.get((asked.round, asked.question.call_id)) or of_steps.get(asked.question.call_id))


TABLE = Table("questions", COLUMNS, _rows, fold_events)


def questions(source: RunSource, *, cache: bool | None = None) -> pd.DataFrame:
    """Return one row per question asked of the person, in order."""
    return with_former_columns(frame_of(source, TABLE, cache), {"outcome": "answered"})
