"""The table of plans: one row per plan of a run."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from agentnb.core.plans.plan_history import PlanHistory, PlanProgress
from agentnb.core.run.facts import RunFacts
from agentnb.core.run.fold import fold_events
from agentnb.core.usage import NOTHING_USED
from agentnb.interchange.files import RunSource
from agentnb.tables.columns import Column, columns_of
from agentnb.tables.folders import frame_of
from agentnb.tables.model_call_rows import executor_of
from agentnb.tables.table_values import Table

if TYPE_CHECKING:
    import pandas as pd


class Row(NamedTuple):
    """A plan, and the id of its run."""

    run_id: str
    plan: PlanProgress

    @property
    def steps(self) -> int | None:
        """Number of steps, or None if the plan has no list of steps."""
        return len(self.plan.steps) if isinstance(self.plan.record.plan.get("steps"), list | tuple) else None

    @property
    def cost(self) -> float | None:
        """Cost of its model calls, or None if the cost of any is unknown."""
        return sum(self.plan.usages, NOTHING_USED).cost if self.plan.usages else None

    @property
    def seconds(self) -> float | None:
        """Duration of its execution."""
        began, ended = self.plan.began_at, self.plan.ended_at
        return None if began is None or ended is None else (ended - began).total_seconds()


COLUMNS: list[Column[Row]] = columns_of("plans")


def _rows(run: RunFacts) -> Iterator[Row]:
    if executor_of(run):  # the row belongs to the run that made the plan
        return
    for plan in PlanHistory(run.events).plans if run.plans or run.step_records else ():
        yield Row(run.id, plan)


TABLE = Table("plans", COLUMNS, _rows, fold_events)


def plans(source: RunSource, *, cache: bool | None = None) -> pd.DataFrame:
    """Return one row per plan, in order of creation. A plan that is proposed again keeps its row."""
    return frame_of(source, TABLE, cache)
