"""The table of steps: one row per attempt at a workflow step, and one per skipped step."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

from agentnb.core.run.facts import RunFacts
from agentnb.core.run.fold import fold_events
from agentnb.core.run.step_outputs import as_text
from agentnb.core.run.timeline import Step, first_seq, timeline
from agentnb.core.run.work_records import is_substituted
from agentnb.interchange.files import RunSource
from agentnb.tables.columns import Column, columns_of
from agentnb.tables.folders import frame_of
from agentnb.tables.table_values import Table

if TYPE_CHECKING:
    import pandas as pd


class Row(NamedTuple):
    """An attempt at a step in a run."""

    run_id: str
    attempt: Step

    @property
    def step(self) -> str:
        """The step's path."""
        event = self.attempt.begun or self.attempt.ended
        return "" if event is None else event.step

    @property
    def seconds(self) -> float | None:
        """Its duration."""
        begun, ended = self.attempt.begun, self.attempt.ended
        if begun is None or ended is None or begun.at is None or ended.at is None:
            return None
        return (ended.at - begun.at).total_seconds()

    def of_end(self, name: str) -> Any:
        """Return a field of the end event, or None if the event is missing or the field is empty."""
        return getattr(self.attempt.ended, name, None) or None


COLUMNS: list[Column[Row]] = columns_of(
    "steps",
    {
        "substituted": lambda row: is_substituted(row.attempt.status, row.of_end("error") or ""),
        "error": lambda row: row.of_end("error"),
        "reason": lambda row: row.of_end("reason"),
        "wait": lambda row: getattr(row.attempt.ended, "wait", None),
        "output": lambda row: _output(getattr(row.attempt.ended, "output", None)),
    },
)


def _output(output: Any) -> str | None:
    return None if output is None else as_text(output)


def _rows(run: RunFacts) -> Iterator[Row]:
    """Yield the attempts in the order in which they started."""
    for part in sorted(timeline(run, Step), key=first_seq) if run.step_records else ():
        assert isinstance(part, Step), "the only kind requested"
        yield Row(run.id, part)


TABLE = Table("steps", COLUMNS, _rows, fold_events)


def steps(source: RunSource, *, cache: bool | None = None) -> pd.DataFrame:
    """Return one row per attempt at a workflow step, in the order in which they started."""
    return frame_of(source, TABLE, cache)
