"""A plan of a chat as it is kept: what it is for, what became of it and of each step, as plain data."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from agentnb.chat.plans.plan_review import REVIEWER
from agentnb.core.log.work_events import PlanReviewed
from agentnb.core.plans.plan_history import PlanHistory
from agentnb.core.plans.plan_steps import PENDING, PlanStep
from agentnb.detect.run import Run
from agentnb.errors import SettingsError, near

STEP_FIELDS = ("stepNumber", "type", "description", "tools", "args", "executorRequired", "dependsOn")


def stored_plan(run: Run, plan_id: str) -> dict[str, Any]:
    """Return a plan of a run as plain data, as the documents store it. Raises `SettingsError` if the run has no such plan.

    Times are ISO 8601, UTC. ``intent_label`` is None: plans have no labels.
    """
    history = PlanHistory(run.events)
    found = next((plan for plan in history.plans if plan.id == plan_id), None)
    if found is None:
        known = [plan.id for plan in history.plans]
        raise SettingsError(f"Run {run.id} has no plan {plan_id!r}", near(plan_id, known))
    plan = found.plan
    return {
        "id": plan_id,
        "run_id": run.id,
        "conversation": run.conversation,
        "objective": plan.get("objective", ""),
        "mode": plan.get("mode") or found.context,
        "intent_label": None,
        "execution_mode": found.mode,
        "status": found.outcome,
        "reasoning": plan.get("reasoning"),
        "requested_outputs": plan.get("requested_outputs", []),
        "priority_entities": plan.get("priority_entities", []),
        "steps": [_step(data, found.steps[place]) for place, data in enumerate(_written(plan))],
        "review": _review(run, plan_id),
        "edits": found.edits,
        "created_at": _iso(found.made_at),
        "started_at": _iso(found.began_at),
        "completed_at": _iso(found.ended_at),
    }


def _written(plan: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    steps = plan.get("steps")
    return [one if isinstance(one, Mapping) else {} for one in steps] if isinstance(steps, list | tuple) else []


def _step(data: Mapping[str, Any], step: PlanStep) -> dict[str, Any]:
    became = {"status": step.status or PENDING, "result": step.result, "error": step.error or None}
    return {**{name: data.get(name) for name in STEP_FIELDS}, **became}


def _review(run: Run, plan_id: str) -> dict[str, str] | None:
    """Return the last review of a plan."""
    reviews = [event for event in run.events if isinstance(event, PlanReviewed) and event.plan_id == plan_id]
    return {"verdict": reviews[-1].verdict, "notes": reviews[-1].notes, "reviewer": REVIEWER} if reviews else None


def _iso(at: datetime | None) -> str | None:
    return None if at is None else at.isoformat().replace("+00:00", "Z")
