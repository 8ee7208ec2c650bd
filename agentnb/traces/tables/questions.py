"""The table of questions: one row for each question to the person."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from agentnb.core.questions import AskedQuestion
from agentnb.detect.run import Run
from agentnb.traces.files import RunSource, load_traces
from agentnb.traces.tables.columns import TIME, Column, table

if TYPE_CHECKING:
    import pandas as pd


class Row(NamedTuple):
    """A question, its run's id, and the tool that asked it."""

    run_id: str
    asked: AskedQuestion
    tool: str | None


COLUMNS: list[Column[Row]] = [
    Column("run_id", "str", lambda row: row.run_id),
    Column("round", "int64", lambda row: row.asked.round),
    Column("question_id", "str", lambda row: row.asked.question.id),
    Column("call_id", "str", lambda row: row.asked.question.call_id or None),
    Column("tool", "str", lambda row: row.tool),
    Column("kind", "str", lambda row: row.asked.question.kind),
    Column("message", "str", lambda row: row.asked.question.message),
    Column("schema", "str", lambda row: _json(row.asked.question.schema)),
    Column("outcome", "str", lambda row: row.asked.outcome),
    Column("answer", "str", lambda row: _json(row.asked.answer) if row.asked.outcome == "answered" else None),
    Column("asked_at", TIME, lambda row: row.asked.asked_at),
    Column("answered_at", TIME, lambda row: row.asked.closed_at if row.asked.outcome != "withdrawn" else None),
    Column("seconds", "float64", lambda row: row.asked.seconds),
]


def questions(source: RunSource) -> pd.DataFrame:
    """Return one row per question to the person, in order.

    ``outcome``: ``answered``, ``declined``, ``withdrawn`` (the run no longer awaited an answer) or ``open``. ``schema`` and
    ``answer`` are JSON. ``answered_at``: when the person answered or declined. ``seconds``: from the question until then, or
    until it was withdrawn; missing if it is open, or if its process died. ``tool``: the tool whose call ``call_id`` asked, if
    one did.
    """
    return table((row for run in load_traces(source) for row in _rows(run)), COLUMNS)


def _rows(run: Run) -> Iterator[Row]:
    if not run.questions:
        return
    tools = {(one.index, record.call.id): record.call.name for one in run.rounds for record in one.records}
    for asked in run.questions:
        yield Row(run.id, asked, tools.get((asked.round, asked.question.call_id)))


def _json(value: Any) -> str:
    return msgspec.json.encode(value).decode()
