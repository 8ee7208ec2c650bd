"""Plan outcomes: results of ``agent_create_plan`` for models, and plans in the form in which the documents store them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from agentnb.chat.plans.known_drafts import spec_of
from agentnb.core.plans.plan_history import PlanHistory
from agentnb.core.plans.plan_steps import PENDING as NOT_BEGUN
from agentnb.core.plans.plan_steps import PlanStep
from agentnb.core.run.work_records import PlanRecord
from agentnb.detect.run import Run
from agentnb.errors import SettingsError, suggest_names
from agentnb.workflow.plans.plan_reader import OF_CHAT_STEPS
from agentnb.workflow.plans.plan_spec import PlanSpec

REVIEWER = "plan_reviewer"
MAX_SUMMARY = 4_000
"""Maximum number of characters in a summary."""
MAX_INSIGHT, MAX_ERROR = 1_000, 500
"""Maximum numbers of characters in a result and in an error."""
PENDING, EXECUTED, FAILED = "pending_review", "executed", "failed"
"""Statuses of results, in addition to the verdicts of reviews."""
_NOT_RUN = {"rejected": "Not run: the reviewer rejected the plan.", "needs_changes": "Not run: the reviewer asks for changes."}
REVIEW_FAILED = "Not run: the review failed."


def pending(plan: PlanSpec, stored: Mapping[str, Any]) -> dict[str, Any]:
    """Return the result of a draft. ``stored``: the stored plan."""
    lines = [
        f"{step.number or number}. {step.description or step.type}{' (executor)' if step.executor_required else ''}"
        for number, step in enumerate(plan.steps, 1)
    ]
    reasoning = [plan.reasoning] if plan.reasoning else []
    return {**_result(PENDING, plan.id, "\n".join(lines), insights=reasoning), "plan": dict(stored)}


def not_run(record: PlanRecord) -> dict[str, Any]:
    """Return the result of a plan that must not run because of its review."""
    review = record.reviews[-1]
    summary = REVIEW_FAILED if review.failed else _NOT_RUN[review.verdict]
    return _result(review.verdict, record.id, summary, review=_review(record))


def executed_result(record: PlanRecord, run: Run) -> dict[str, Any]:
    """Return the result of a plan executed by this nested run, including the plan if the person edited it."""
    plan = spec_of(record)
    steps = [_step(run, step, index) for index, step in enumerate(plan.steps)]
    counts = Counter([outcome["status"] for outcome in steps])
    has_done_all = counts["completed"] == len(steps)
    parts = [f"{counts['completed']} of {len(steps)} steps done"]
    parts += [f"{counts[word]} {word}" for word in ("failed", "skipped") if counts[word]]
    parts += [f"ended as {run.status}"] if has_done_all and run.status != "completed" else []
    done = has_done_all and run.status == "completed"
    more: dict[str, Any] = {
        "insights": _insights(run) if done else [],
        "references": [
            f"step {outcome['stepNumber']}: {_by(run, step, index)}"
            for index, (outcome, step) in enumerate(zip(steps, plan.steps, strict=True))
            if outcome["status"] in ("completed", "failed")
        ],
        "steps": steps,
        "review": _review(record),
    }
    result = _result(EXECUTED if done else FAILED, plan.id, f"{', '.join(parts)}.", **more)
    return {**result, "plan": plan.chat_data} if record.edits else result


def _result(status: str, plan_id: str | None, summary: str, review: Any = None, **more: Any) -> dict[str, Any]:
    usual: dict[str, Any] = {"insights": [], "references": []}
    return {"status": status, "plan_id": plan_id, "summary": summary[:MAX_SUMMARY], **usual, **more, "review": review}


def _step(run: Run, step: PlanStep, place: int) -> dict[str, Any]:
    record = run.step_records.get(f"plan/{place}")
    outcome = {"status": "not_run"}
    if record is not None and record.status in ("completed", "skipped"):
        outcome = {"status": record.status, **({"reason": record.reason[:MAX_ERROR]} if record.status == "skipped" else {})}
    elif record is not None:
        outcome = {"status": "failed", "error": (record.error or record.status)[:MAX_ERROR]}
    return {"stepNumber": step.number or place + 1, **outcome}


def _by(run: Run, step: PlanStep, place: int) -> str:
    """Return who carried out a step: the id of a nested run, or the name of a tool."""
    return run.step_records[f"plan/{place}"].nested or ", ".join(step.tools) or step.type


def _insights(run: Run) -> list[str]:
    """Return the last result, truncated."""
    results = run.variables.get("results")
    last = results[-1].get("result") if isinstance(results, list) and results and isinstance(results[-1], dict) else None
    return [] if last in (None, "") else [str(last)[:MAX_INSIGHT]]


def _review(record: PlanRecord) -> dict[str, str] | None:
    """Return the last review of a plan as plain data."""
    last = record.reviews[-1:]
    return {"verdict": last[0].verdict, "notes": last[0].notes, "reviewer": REVIEWER} if last else None


def stored_plan(run: Run, plan_id: str) -> dict[str, Any]:
    """Return a plan of a run as plain data, in the form in which the documents store plans. Raises `SettingsError`
    for an unknown id.

    Times are ISO 8601, UTC. ``intent_label`` is None, since plans have no labels.
    """
    plans = {plan.id: plan for plan in PlanHistory(run.events).plans}
    if plan_id not in plans:
        raise SettingsError(f"Run {run.id} has no plan {plan_id!r}", suggest_names(plan_id, plans))
    entry = plans[plan_id]
    plan, written = entry.record.plan, entry.record.plan.get("steps")
    steps = [
        {
            **{name: data.get(name) if isinstance(data, Mapping) else None for name in OF_CHAT_STEPS},
            **{"status": step.status or NOT_BEGUN, "result": step.result, "error": step.error or None},
        }
        for data, step in zip(written if isinstance(written, list | tuple) else (), entry.steps, strict=True)
    ]
    return {
        "id": plan_id,
        "run_id": run.id,
        "conversation": run.conversation,
        "objective": plan.get("objective", ""),
        "mode": plan.get("mode") or entry.context,
        "intent_label": None,
        "execution_mode": entry.mode,
        "status": entry.outcome,
        "reasoning": plan.get("reasoning"),
        "requested_outputs": plan.get("requested_outputs", []),
        "priority_entities": plan.get("priority_entities", []),
        "steps": steps,
        "review": _review(entry.record),
        "edits": entry.record.edits,
        "created_at": _iso(entry.made_at),
        "started_at": _iso(entry.began_at),
        "completed_at": _iso(entry.ended_at),
    }


def _iso(at: datetime | None) -> str | None:
    return None if at is None else at.isoformat().replace("+00:00", "Z")
