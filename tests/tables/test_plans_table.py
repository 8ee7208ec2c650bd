"""The plans table: a row for each plan."""

from __future__ import annotations

from typing import Any

import pytest
from planned_runs import ASKING, FINAL, HARBOURS, LACKING, blocked_run, fetch, planner_run
from run_builder import RunBuilder

from agentnb import Run, save_trace, tables
from agentnb.core.log import work_events as w
from agentnb.core.log.events import ExtraUsage
from agentnb.core.usage import Usage

EXECUTION = {"step": "exec", "step_kind": "task", "agent": "llm/exec:run_plan"}


def rows(run: Run, *columns: str) -> list[tuple[Any, ...]]:
    table = tables.plans(run).astype(object)[[*columns]]
    return [tuple(row) for row in table.where(table.notna(), None).itertuples(index=False)]


def test_each_plan_has_a_row(tmp_path: Any) -> None:
    run = planner_run(HARBOURS, ASKING, LACKING, FINAL)
    assert rows(run, "plan", "status", "steps", "calls", "edits", "cost", "mode", "context", "verdict") == [
        (1, "completed", 5, 4, 0, 0.0, None, None, None),
        (2, "completed", 2, 0, 0, 0.0, None, None, None),
        (3, "completed", 2, 0, 0, 0.0, None, None, None),
        (4, "completed", 0, 0, 0, 0.0, None, None, None),
    ]
    assert [seconds is None for (seconds,) in rows(run, "seconds")] == [False, False, False, True]
    assert [one for (one,) in rows(run, "plan_id")] == [*run.plans]
    stored = save_trace(run, tmp_path / "run.jsonl")
    assert rows(run, "plan", "status", "cost") == rows(stored, "plan", "status", "cost")  # type: ignore[arg-type]


def test_usage_table_contains_planning_calls() -> None:
    run = planner_run(HARBOURS, FINAL)
    assert list(tables.usage(run)["operation"]) == ["plan_generation"] * 2


DRAFT = {"execution_mode": "draft_only"}


def test_aborted_plan_counts_as_failed() -> None:
    assert [status for (status,) in rows(blocked_run(), "status")] == ["completed", "completed", "completed", "failed"]


def test_plan_row_shows_status_review_verdict_and_edits(subtests: pytest.Subtests) -> None:
    built = RunBuilder().add(w.ContextShifted, context_type="project", entity="p-1")
    call = w.ModelCalled, {"operation": "plan_generation", "usage": Usage(cost=0.25), "execution_mode": "agent_review"}
    built.extend(call).add(w.PlanProposed, plan_id="a", plan={"steps": [fetch("brest")]})
    for name, (facts, expected) in {
        "proposed": ([], ("pending", None, 0)),
        "reviewed": ([(w.PlanReviewed, {"plan_id": "a", "verdict": "fine"})], ("pending", "fine", 0)),
        "edited": ([(w.PlanEdited, {"plan_id": "a", "plan": {"steps": []}})], ("completed", "fine", 1)),
        "rejected": ([(w.PlanRejected, {"plan_id": "a"})], ("declined", "fine", 1)),
    }.items():
        with subtests.test(name):
            built.extend(*facts)
            assert rows(built.run, "status", "verdict", "edits") == [expected]
            assert rows(built.run, "mode", "context", "cost", "seconds") == [("agent_review", "project", 0.25, None)]


def test_plan_refused_by_a_reviewer_is_declined() -> None:
    for verdict, status in {"needs_changes": "declined", "rejected": "declined", "approved": "pending"}.items():
        built = RunBuilder().add(w.PlanProposed, plan_id="a", plan={"steps": [fetch("brest")]})
        assert rows(built.add(w.PlanReviewed, plan_id="a", verdict=verdict).run, "status") == [(status,)]


@pytest.mark.req("R3.43")
def test_failed_plan_row_has_its_context_and_mode() -> None:
    built = RunBuilder(context_type="project_audit", run_kind="workflow")
    for plan, mode in {"a": "auto_execute", "b": "agent_review"}.items():
        built.add(w.ModelCalled, operation="plan_generation", execution_mode=mode)
        built.add(w.PlanProposed, plan_id=plan, plan={"steps": [fetch("vigo")]})
        built.add(w.StepStarted, **EXECUTION, inputs={"plan": {"id": plan}})
        built.add(w.ContextShifted, context_type="project")
        built.add(w.StepFinished, step="exec", status="failed", error="no such station")
    assert rows(built.run, "status", "context", "mode") == [
        ("failed", "project_audit", "auto_execute"),
        ("failed", "project", "agent_review"),
    ]


def test_plan_cost_covers_its_planning_and_execution() -> None:
    built = RunBuilder(run_kind="workflow")
    for plan, cost in {"a": 0.5, "b": None}.items():
        built.add(w.ModelCalled, operation="plan_generation", usage=Usage(cost=cost))
        built.add(w.PlanProposed, plan_id=plan, plan={"steps": [fetch("brest")]})
        built.add(w.StepStarted, **EXECUTION, inputs={"plan": {"id": plan}})
        built.add(ExtraUsage, nested_run="n", nested=Usage(cost=0.25))
        assert rows(built.run, "status")[-1] == ("executing",)
        built.add(w.StepFinished, step="exec")
    built.add(ExtraUsage, nested_run="n", nested=Usage(cost=4.0))
    assert rows(built.run, "status", "cost", "seconds") == [("completed", 0.75, 2.0), ("completed", None, 2.0)]
