"""The table of plans: one row for each plan of a run."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from agentnb.core.plans.plan_history import PlanHistory, PlanProgress
from agentnb.core.run.facts import RunFacts
from agentnb.core.run.fold import folded
from agentnb.core.usage import NOTHING_USED
from agentnb.interchange.files import RunSource
from agentnb.tables.columns import COUNTED, DOLLARS, SECONDS, Column
from agentnb.tables.folders import frame_of
from agentnb.tables.frames import Table
from agentnb.tables.model_calls import executor_of

if TYPE_CHECKING:
    import pandas as pd


class Row(NamedTuple):
    """A plan, and its run's id."""

    run_id: str
    plan: PlanProgress

    @property
    def steps(self) -> int | None:
        """How many steps it has; None if it has no list of them."""
        return len(self.plan.steps) if isinstance(self.plan.plan.get("steps"), list | tuple) else None

    @property
    def cost(self) -> float | None:
        """The cost of its model calls; None if that of one is unknown."""
        return sum(self.plan.usages, NOTHING_USED).cost if self.plan.usages else None

    @property
    def seconds(self) -> float | None:
        """How long its execution took."""
        began, ended = self.plan.began_at, self.plan.ended_at
        return None if began is None or ended is None else (ended - began).total_seconds()


COLUMNS: list[Column[Row]] = [
    Column("run_id", "str", lambda row: row.run_id, "The run", "event.run_id"),
    Column("plan", "int64", lambda row: row.plan.number, "Its number in the run", COUNTED, "plans from 1"),
    Column("plan_id", "str", lambda row: row.plan.id, "Id of the plan", "plan_proposed.plan_id"),
    Column(
        "mode",
        "str",
        lambda row: row.plan.mode or None,
        "How a plan of a chat is executed: auto_execute, draft_only or agent_review",
        "model_called.execution_mode",
    ),
    Column(
        "context",
        "str",
        lambda row: row.plan.context or None,
        "The scope in which it was made",
        "run_started.context_type, context_shifted.context_type",
    ),
    Column(
        "status",
        "str",
        lambda row: row.plan.outcome,
        "pending, pending_review, executing (also if the log ends there), completed (also a plan without steps), failed, "
        "cancelled or declined",
        "step_finished.status of the task that runs it, plan_rejected",
    ),
    Column("verdict", "str", lambda row: row.plan.verdict or None, "Of its last review", "plan_reviewed.verdict"),
    Column("edits", "int64", lambda row: row.plan.edits, "How often it was edited", "counted: plan_edited", "edits"),
    Column("steps", "Int64", lambda row: row.steps, "Its steps, those that were dropped or not run included", COUNTED, "steps"),
    Column(
        "calls",
        "int64",
        lambda row: row.plan.calls,
        "Tool calls of its steps that began, further attempts included",
        "counted: tool_started",
        "calls",
    ),
    Column(
        "cost",
        "float64",
        lambda row: row.cost,
        "Of the model calls that made it, and of those made while it ran; missing if one is unknown",
        "model_called.usage.cost, spent_besides.nested.cost",
        DOLLARS,
    ),
    Column(
        "seconds",
        "float64",
        lambda row: row.seconds,
        "How long it was executed, questions to the person included; missing if it was not, or is not over",
        "step_finished.at - step_started.at",
        SECONDS,
    ),
]


def _rows(run: RunFacts) -> Iterator[Row]:
    if executor_of(run):  # the run that made the plan has its row
        return
    for plan in PlanHistory(run.events).plans if run.plans or run.step_records else ():
        yield Row(run.id, plan)


TABLE = Table("plans", COLUMNS, _rows, folded)


def plans(source: RunSource, *, cache: bool | None = None) -> pd.DataFrame:
    """Return one row per plan, in the order in which plans were made. A plan that is proposed again keeps its row."""
    return frame_of(source, TABLE, cache)
