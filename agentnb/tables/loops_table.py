"""The table of loops: one row for each repetition found in a run, whether or not it ended the run."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

from agentnb.core.log.events import AnyEvent, LoopDetected, RoundFinished
from agentnb.core.log.work_events import FindingMade
from agentnb.core.run.rounds import WorkflowRound, is_blocked
from agentnb.core.schema.json_schema import json_of
from agentnb.detect.run import Run
from agentnb.interchange.files import RunSource
from agentnb.tables.columns import Column, columns_of
from agentnb.tables.folders import frame_of
from agentnb.tables.table_values import Table

if TYPE_CHECKING:
    import pandas as pd

PLANNING_ONLY = "planning_only"
"""Reason for a round after too many planning-only rounds, and the rule of such a loop."""


LOOP, STALL = "loop", "stall"
FAMILIES = {PLANNING_ONLY: STALL}
"""Families of the rules in agentnb's own policies that are not about loops."""


class Row(NamedTuple):
    """A finding and its run; rounds are given as indexes."""

    run: Run
    rule: str
    first: int
    last: int
    severity: str
    sentence: str
    family: str = LOOP
    evidence: Any = None


COLUMNS: list[Column[Row]] = columns_of(
    "loops",
    {"evidence": lambda row: None if row.evidence is None else json_of(row.evidence)},
)


def find_loops(run: Run) -> list[Row]:
    """Return a run's findings, in the order of their last rounds."""
    stops = [_of_loop(run, item) for item in run.loops]
    own = [_of_finding(run, item) for item in run.findings]
    stop_keys = {(row.rule, row.last) for row in stops}
    others = [row for item in run.rounds for row in _of_round(run, item) if (row.rule, row.last) not in stop_keys]
    return sorted([*others, *own, *stops], key=lambda row: row.last)  # stable within a round


def find_new_loops(event: AnyEvent, run: Run) -> list[Row]:
    """Return the findings added by this event, which must be the run's last."""
    if isinstance(event, FindingMade):
        return [_of_finding(run, event)]
    if isinstance(event, LoopDetected):
        row = _of_loop(run, event)
        judged = _of_round(run, run.rounds[row.last]) if 0 <= row.last < len(run.rounds) else ()
        return [] if any((judged_row.rule, judged_row.last) == (row.rule, row.last) for judged_row in judged) else [row]
    return [*_of_round(run, run.rounds[-1])] if isinstance(event, RoundFinished) else []


def _of_finding(run: Run, one: FindingMade) -> Row:
    return Row(run, one.rule, one.first, one.last, one.severity, one.sentence, one.family, one.evidence)


def _of_loop(run: Run, one: LoopDetected) -> Row:
    return _row(run, one.rule, one.first, one.last, one.severity, one.sentence)


def _row(run: Run, rule: str, first: int, last: int, severity: str, sentence: str) -> Row:
    return Row(run, rule, first, last, severity, sentence, FAMILIES.get(rule, LOOP))


def _of_round(run: Run, one: WorkflowRound) -> Iterator[Row]:
    """Yield the findings in a round, except the loop that ended the run."""
    if one.reason == PLANNING_ONLY and one.index:
        first = _first_of_planning(run, one.index)
        rounds = one.index - first
        yield _row(run, PLANNING_ONLY, first, one.index - 1, "nudge", f"{rounds} rounds of planning with no work in between")
    if one.said_before is not None:
        sentence = f"The answer of round {one.index + 1} nearly repeats that of round {one.said_before + 1}"
        yield _row(run, "already_said", one.said_before, one.index, "notice", sentence)
    for record in one.records:
        if is_blocked(record):
            sentence = f"A call to {record.call.name} was not run: it repeats an earlier one"
            yield _row(run, record.rule, one.index, one.index, "block", sentence)


def _first_of_planning(run: Run, index: int) -> int:
    """Return the first of the consecutive planning-only rounds that precede this one."""
    while index and not any(record.is_work for record in run.rounds[index - 1].records) and not run.rounds[index - 1].completed:
        index -= 1
    return index


TABLE = Table("loops", COLUMNS, find_loops)


def loops(source: RunSource, *, cache: bool | None = None) -> pd.DataFrame:
    """Return one row per finding, whether or not it ended its run, in the order of their last rounds."""
    return frame_of(source, TABLE, cache)
