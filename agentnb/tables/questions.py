"""The table of questions: one row for each question to the person."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from agentnb.core.questions import AskedQuestion
from agentnb.core.run.facts import RunFacts
from agentnb.core.run.fold import folded
from agentnb.interchange.files import RunSource
from agentnb.tables.columns import JSON, ROUNDS, SECONDS, TIME, UTC, Column, number_of
from agentnb.tables.folders import frame_of
from agentnb.tables.former_columns import with_former_columns
from agentnb.tables.frames import Table

if TYPE_CHECKING:
    import pandas as pd


class Row(NamedTuple):
    """A question, its run's id, and the tool that asked it."""

    run_id: str
    asked: AskedQuestion
    tool: str | None


COLUMNS: list[Column[Row]] = [
    Column("run_id", "str", lambda row: row.run_id, "The run", "event.run_id"),
    Column(
        "round",
        "int64",
        lambda row: number_of(row.asked.round),
        "The round in which it was asked; 1 also before the first round",
        "round_started.index",
        ROUNDS,
    ),
    Column(
        "question_id",
        "str",
        lambda row: row.asked.question.id,
        "Id of the question; what a nested run asks has the same id in the run that awaits it",
        "question_asked.question.id",
    ),
    Column(
        "call_id",
        "str",
        lambda row: row.asked.question.call_id or None,
        "The tool call that asked, if one did",
        "question_asked.question.call_id",
    ),
    Column("tool", "str", lambda row: row.tool, "The tool that asked, if one did", "tool_started.call.name"),
    Column(
        "asked_by",
        "str",
        lambda row: row.asked.question.asked_by or None,
        "Who asked: the tool, the step, or the server that the tool belongs to; missing for a rule or gate",
        "question_asked.question.asked_by",
    ),
    Column("kind", "str", lambda row: row.asked.question.kind, "Kind of the question", "question_asked.question.kind"),
    Column("message", "str", lambda row: row.asked.question.message, "The question", "question_asked.question.message"),
    Column(
        "schema",
        "str",
        lambda row: _json(row.asked.question.schema),
        "JSON Schema of its answer",
        "question_asked.question.schema",
        JSON,
    ),
    Column(
        "url",
        "str",
        lambda row: row.asked.question.url or None,
        "The address that the person was asked to open, if there was one",
        "question_asked.question.url",
    ),
    Column(
        "answered",
        "str",
        lambda row: row.asked.outcome,
        "answered, declined, cancelled (closed without a decision), withdrawn (the run no longer awaited an answer) or open",
        "question_answered.declined, question_answered.cancelled, question_answered.withdrawn",
    ),
    Column(
        "answer",
        "str",
        lambda row: _json(row.asked.answer) if row.asked.outcome == "answered" else None,
        "The answer; missing unless it was answered",
        "question_answered.answer",
        JSON,
    ),
    Column(
        "answered_by",
        "str",
        lambda row: row.asked.by if row.asked.has_answer else None,
        "person, or program: a function that answers in their place; nobody, if neither could",
        "question_answered.by",
    ),
    Column("asked_at", TIME, lambda row: row.asked.asked_at, "When it was asked", "question_asked.at", UTC),
    Column(
        "answered_at",
        TIME,
        lambda row: row.asked.closed_at if row.asked.outcome != "withdrawn" else None,
        "When the person answered, declined or cancelled",
        "question_answered.at",
        UTC,
    ),
    Column(
        "seconds",
        "float64",
        lambda row: row.asked.seconds,
        "Time until it was answered, declined, cancelled or withdrawn; missing if it is open, or if its process died",
        "question_answered.at - question_asked.at",
        SECONDS,
    ),
]


def _rows(run: RunFacts) -> Iterator[Row]:
    if not run.questions:
        return
    tools = {(one.index, record.call.id): record.call.name for one in run.rounds for record in one.records}
    of_steps = {one.record.call.id: one.record.call.name for one in run.step_calls}
    for asked in run.questions:
        yield Row(run.id, asked, tools.get((asked.round, asked.question.call_id)) or of_steps.get(asked.question.call_id))


def _json(value: Any) -> str:
    return msgspec.json.encode(value).decode()


TABLE = Table("questions", COLUMNS, _rows, folded)


def questions(source: RunSource, *, cache: bool | None = None) -> pd.DataFrame:
    """Return one row per question to the person, in order."""
    return with_former_columns(frame_of(source, TABLE, cache), {"outcome": "answered"})
