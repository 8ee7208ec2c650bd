"""The results of ``agent_create_plan``, as a model reads them: what became of a plan, and what follows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from agentnb.chat.plans.plan_review import Review
from agentnb.core.plans.plan_steps import PlanStep
from agentnb.detect.run import Run
from agentnb.workflow.plans.plan_spec import PlanSpec

MAX_SUMMARY = 4_000
"""Characters of a summary."""
MAX_INSIGHT, MAX_ERROR = 1_000, 500
"""Characters of a result and of an error."""
PENDING, EXECUTED, FAILED = "pending_review", "executed", "failed"
"""The statuses of results, besides the verdicts of reviews."""
_NOT_RUN = {"rejected": "Not run: the reviewer rejected it.", "needs_changes": "Not run: the reviewer asks for changes."}
REVIEW_FAILED = "Not run: the review failed."


def pending(plan: PlanSpec, stored: Mapping[str, Any]) -> dict[str, Any]:
    """Return the result for a draft. ``stored``: the plan as it is kept."""
    lines = [
        f"{step.number or place}. {step.description or step.type}{' (executor)' if step.executor_required else ''}"
        for place, step in enumerate(plan.steps, 1)
    ]
    reasoning = [plan.reasoning] if plan.reasoning else []
    return {**_result(PENDING, plan, "\n".join(lines), insights=reasoning), "plan": dict(stored)}


def not_run(plan: PlanSpec, review: Review, *, failed: bool = False) -> dict[str, Any]:
    """Return the result for a plan that its review keeps from running; ``failed``: the review itself failed."""
    return _result(review.verdict, plan, REVIEW_FAILED if failed else _NOT_RUN[review.verdict], review=review)


def executed(plan: PlanSpec, run: Run, review: Review | None, *, is_edited: bool = False) -> dict[str, Any]:
    """Return the result for a plan that ran as this nested run; with the plan if the person has edited it."""
    steps = [_step(run, step, place) for place, step in enumerate(plan.steps)]
    counts = {word: sum(one["status"] == word for one in steps) for word in ("completed", "failed", "skipped")}
    told = [f"{counts['completed']} of {len(steps)} steps done"]
    told += [f"{counts[word]} {word}" for word in ("failed", "skipped") if counts[word]]
    if run.status != "completed" and counts["completed"] == len(steps):
        told.append(f"ended as {run.status}")
    done = counts["completed"] == len(steps) and run.status == "completed"
    references = [
        f"step {one['stepNumber']}: {_by(run, step, place)}"
        for place, (one, step) in enumerate(zip(steps, plan.steps, strict=True))
        if one["status"] in ("completed", "failed")
    ]
    insights = _insights(run) if done else []
    status = EXECUTED if done else FAILED
    found = _result(status, plan, f"{', '.join(told)}.", insights=insights, references=references, steps=steps, review=review)
    return {**found, "plan": plan.chat_data} if is_edited else found


def _result(status: str, plan: PlanSpec, summary: str, review: Review | None = None, **more: Any) -> dict[str, Any]:
    about: dict[str, Any] = {
        "status": status,
        "plan_id": plan.id,
        "summary": summary[:MAX_SUMMARY],
        "insights": [],
        "references": [],
    }
    return {**about, **more, "review": None if review is None else review.data}


def _step(run: Run, step: PlanStep, place: int) -> dict[str, Any]:
    number, record = step.number or place + 1, run.step_records.get(f"plan/{place}")
    if record is None:
        return {"stepNumber": number, "status": "not_run"}
    if record.status == "skipped":
        return {"stepNumber": number, "status": "skipped", "reason": record.reason[:MAX_ERROR]}
    if record.status == "completed":
        return {"stepNumber": number, "status": "completed"}
    return {"stepNumber": number, "status": "failed", "error": (record.error or record.status)[:MAX_ERROR]}


def _by(run: Run, step: PlanStep, place: int) -> str:
    """Return what did the step: a nested run by its id, a tool by its name."""
    record = run.step_records.get(f"plan/{place}")
    nested = getattr(record, "nested", None)
    return str(nested) if nested else ", ".join(step.tools) or step.type


def _insights(run: Run) -> list[str]:
    """Return the last result, shortened."""
    results = run.variables.get("results")
    last = results[-1].get("result") if isinstance(results, list) and results and isinstance(results[-1], dict) else None
    return [] if last in (None, "") else [str(last)[:MAX_INSIGHT]]
