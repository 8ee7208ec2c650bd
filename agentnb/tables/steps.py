"""The table of steps: one row for each attempt at a step of a workflow, and one for each step that was skipped."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import TYPE_CHECKING, Any, NamedTuple

from agentnb.core.log import work_events as w
from agentnb.core.run.facts import RunFacts
from agentnb.core.run.fold import folded
from agentnb.core.run.step_outputs import as_text
from agentnb.core.run.timeline import Step, first_seq, timeline
from agentnb.core.run.work_records import is_substituted
from agentnb.interchange.files import RunSource
from agentnb.tables.columns import SECONDS, TIME, UTC, Column
from agentnb.tables.folders import frame_of
from agentnb.tables.frames import Table

if TYPE_CHECKING:
    import pandas as pd


class Row(NamedTuple):
    """An attempt: the start of it, and the event that ended it, each None if there is none."""

    run_id: str
    started: w.StepStarted | None
    ended: w.StepFinished | w.StepAttempted | w.StepSkipped | None

    @property
    def step(self) -> str:
        """The path of the step."""
        one = self.started or self.ended
        return "" if one is None else one.step

    @property
    def status(self) -> str:
        """What became of the attempt."""
        if self.ended is None:
            return "open"
        if isinstance(self.ended, w.StepFinished):
            return self.ended.status
        return "retried" if isinstance(self.ended, w.StepAttempted) else "skipped"

    @property
    def ended_at(self) -> datetime | None:
        """When it ended."""
        return None if self.ended is None else self.ended.at

    @property
    def seconds(self) -> float | None:
        """How long it took."""
        if self.started is None or self.ended is None:
            return None
        began, over = self.started.at, self.ended.at
        return None if began is None or over is None else (over - began).total_seconds()

    def of_start(self, name: str) -> Any:
        """Return a field of its start; None where it is empty."""
        return None if self.started is None else getattr(self.started, name) or None

    def of_end(self, name: str) -> Any:
        """Return a field of its end, if that has it; None where it is empty."""
        return getattr(self.ended, name, None) or None


COLUMNS: list[Column[Row]] = [
    Column("run_id", "str", lambda row: row.run_id, "The run", "event.run_id"),
    Column("step", "str", lambda row: row.step, "Path of the step: ids of blocks and step, joined by /", "step_started.step"),
    Column(
        "kind",
        "str",
        lambda row: row.of_start("step_kind"),
        "The type of the step, such as agent or condition",
        "step_started.step_kind",
    ),
    Column("agent", "str", lambda row: row.of_start("agent"), "Who does the work: agent, tool, file", "step_started.agent"),
    Column("parent", "str", lambda row: row.of_start("parent"), "Path of the block around it", "step_started.parent"),
    Column(
        "iteration",
        "Int64",
        lambda row: row.of_start("iteration"),
        "Which execution of the step this is; loops make more than one",
        "step_started.iteration",
        "executions from 1",
    ),
    Column(
        "attempt",
        "Int64",
        lambda row: row.of_start("attempt"),
        "Which try of that execution this is",
        "step_started.attempt",
        "attempts from 1",
    ),
    Column(
        "status",
        "str",
        lambda row: row.status,
        "completed, failed, cancelled, skipped; retried: it failed, and another attempt follows; open: the log ends before",
        "step_finished.status",
    ),
    Column(
        "substituted",
        "bool",
        lambda row: is_substituted(row.status, row.of_end("error") or ""),
        "Whether it failed and completed with the substitute that on_error gives",
        "step_finished.status, step_finished.error",
    ),
    Column(
        "error",
        "str",
        lambda row: row.of_end("error"),
        "Why the attempt failed; of a completed step: why it used a substitute",
        "step_finished.error, step_attempted.error",
    ),
    Column(
        "reason",
        "str",
        lambda row: row.of_end("reason"),
        "Why it was skipped, or cancelled although the run went on",
        "step_skipped.reason, step_finished.reason",
    ),
    Column(
        "wait",
        "float64",
        lambda row: row.ended.wait if isinstance(row.ended, w.StepAttempted) else None,
        "Wait before the next attempt",
        "step_attempted.wait",
        SECONDS,
    ),
    Column(
        "output",
        "str",
        lambda row: _output(row.ended),
        "What it gave, as text or JSON; of a block, see its children",
        "step_finished.output",
    ),
    Column("nested", "str", lambda row: row.of_start("nested"), "The nested run that did its work", "step_started.nested"),
    Column("started_at", TIME, lambda row: row.started.at if row.started else None, "When it began", "step_started.at", UTC),
    Column("ended_at", TIME, lambda row: row.ended_at, "When it ended", "step_finished.at", UTC),
    Column("seconds", "float64", lambda row: row.seconds, "How long it took", "step_finished.at - step_started.at", SECONDS),
]


def _output(ended: Any) -> str | None:
    return as_text(ended.output) if isinstance(ended, w.StepFinished) and ended.output is not None else None


def _rows(run: RunFacts) -> Iterator[Row]:
    """Yield the attempts in the order of their starts."""
    for part in sorted(timeline(run, Step), key=first_seq) if run.step_records else ():
        started = part.begun if isinstance(part.begun, w.StepStarted) else None
        ended = part.ended if isinstance(part.ended, w.StepFinished | w.StepAttempted | w.StepSkipped) else None
        yield Row(run.id, started, ended)


TABLE = Table("steps", COLUMNS, _rows, folded)


def steps(source: RunSource, *, cache: bool | None = None) -> pd.DataFrame:
    """Return one row per attempt at a step of a workflow, in the order of their starts."""
    return frame_of(source, TABLE, cache)
