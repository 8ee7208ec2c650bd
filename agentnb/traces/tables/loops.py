"""The table of loops: one row for each time a run was found repeating itself, whether or not that ended it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from agentnb.core.rounds import WorkflowRound, is_blocked
from agentnb.detect.run import Run
from agentnb.traces.files import RunSource, load_traces
from agentnb.traces.tables.columns import Column, table

if TYPE_CHECKING:
    import pandas as pd

PLANNING_ONLY = "planning_only"
"""The reason of a round that follows too many rounds of planning alone, and the rule of such a loop."""


class Row(NamedTuple):
    """A finding and its run."""

    run: Run
    rule: str
    first: int
    last: int
    severity: str
    sentence: str


COLUMNS: list[Column[Row]] = [
    Column("run_id", "str", lambda row: row.run.id),
    Column("model", "str", lambda row: row.run.model),
    Column("rule", "str", lambda row: row.rule),
    Column("first", "int64", lambda row: row.first),
    Column("last", "int64", lambda row: row.last),
    Column("severity", "str", lambda row: row.severity),
    Column("sentence", "str", lambda row: row.sentence),
]


def loops(source: RunSource) -> pd.DataFrame:
    """Return one row per finding, in the order of their last rounds: its rule, its rounds (``first`` to ``last``), a sentence.

    ``severity``: ``notice`` for a repeated answer, ``block`` for a call that was not run because it repeats an earlier one,
    ``nudge`` for planning that an intervention answers, ``stop`` for the loop that ended the run, and what a detector of one's
    own says.
    """
    return table((row for run in load_traces(source) for row in _found(run)), COLUMNS)


def _found(run: Run) -> list[Row]:
    stops = [Row(run, one.rule, one.first, one.last, one.severity, one.sentence) for one in run.loops]
    own = [Row(run, one.rule, one.first, one.last, one.severity, one.sentence) for one in run.findings]
    known = {(row.rule, row.last) for row in stops}
    others = [row for one in run.rounds for row in _of_round(run, one) if (row.rule, row.last) not in known]
    return sorted([*others, *own, *stops], key=lambda row: row.last)  # those of one round stay in this order


def _of_round(run: Run, one: WorkflowRound) -> Iterator[Row]:
    """Yield what was found in a round besides the loop that ended the run."""
    if one.reason == PLANNING_ONLY and one.index:
        first = _first_of_planning(run, one.index)
        rounds = one.index - first
        yield Row(run, PLANNING_ONLY, first, one.index - 1, "nudge", f"{rounds} rounds of planning, and no work between them")
    if one.said_before is not None:
        sentence = f"The answer of round {one.index + 1} is nearly that of round {one.said_before + 1}"
        yield Row(run, "already_said", one.said_before, one.index, "notice", sentence)
    for record in one.records:
        if is_blocked(record):
            sentence = f"A call of {record.call.name} was not run: it repeats an earlier one"
            yield Row(run, record.rule, one.index, one.index, "block", sentence)


def _first_of_planning(run: Run, index: int) -> int:
    """Return the first of the rounds before this one in which nothing but planning was done."""
    while index and not any(record.is_work for record in run.rounds[index - 1].records) and not run.rounds[index - 1].completed:
        index -= 1
    return index
