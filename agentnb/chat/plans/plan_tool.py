"""The tool ``agent_create_plan``: makes a plan, and runs it, stores it as a draft, or submits it for review."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from uuid import uuid4

import msgspec

from agentnb.chat.defaults import ATTEMPTS
from agentnb.chat.logged_context import rules_of_run
from agentnb.chat.plans.clear_words import clear_word
from agentnb.chat.plans.known_drafts import drafts_of, is_draft, reason_of, spec_of
from agentnb.chat.plans.plan_execution import PlanExecution, is_approved, model_of, plan_specs
from agentnb.chat.plans.plan_outcome import not_run, pending, stored_plan
from agentnb.chat.plans.plan_rules import CheckedPlan
from agentnb.chat.plans.planning import (
    DRAFT,
    NAME,
    PLANNER,
    REVIEW,
    SPEC,
    PlanRequest,
    Verdict,
    plan_request,
    read_plan,
    read_request,
    read_review,
    review_request,
)
from agentnb.core.log.work_events import PlanProposed, PlanRejected, PlanReviewed
from agentnb.core.messages import Text
from agentnb.core.plans.plan_history import GENERATION
from agentnb.core.run.work_records import PlanRecord
from agentnb.detect.run import Run
from agentnb.errors import ModelError
from agentnb.models.model import Model
from agentnb.tools.signature import refused_arguments
from agentnb.tools.tool import CallServices, ToolContext, ToolOutcome, failure

NOT_APPROVED, ALREADY_EXECUTED, UNKNOWN_PLAN, DECLINED_PLAN = "not_approved", "already_executed", "unknown_plan", "declined"
"""Error codes of calls that refer to a draft."""
OPERATION, QUALITY = "plan_review", "quality"
"""Operation and profile of reviews."""
NO_ANSWER, UNREADABLE = "The reviewer did not answer.", "The reviewer's answer cannot be read."


class PlanTool:
    """Makes and runs plans for a chat's model."""

    spec = SPEC
    effects = frozenset({"read"})  # calls of its steps are judged individually
    parallel_safe = False
    blocking = False
    repeatable = True  # continues the work of a dead process

    def __init__(self, execution: PlanExecution, reviewer: str | Model | None, review_failed: Verdict) -> None:
        """``execution``: runs the plans. The other parameters are as for `Plans`."""
        self._execution = execution
        self._reviewer = reviewer
        self.timeout = execution.max_seconds
        self._review_failed = review_failed

    async def run(self, arguments: Any, context: ToolContext) -> ToolOutcome:
        """Run the call; failures become error results with advice."""
        inside = context.inside
        if not isinstance(arguments, Mapping) or inside is None:
            return refused_arguments(NAME, arguments, SPEC.input_schema)
        asked = read_request(arguments, inside.run.prompt)
        if isinstance(asked, ToolOutcome):
            return asked
        with inside.held():  # its time counts separately
            result = await (self._run_draft if asked.plan_id else self._make_and_run)(asked, inside, context.call_id)
        return (
            result
            if isinstance(result, ToolOutcome)
            else ToolOutcome(True, (Text(msgspec.json.encode(result).decode()),), result)
        )

    async def _make_and_run(self, asked: PlanRequest, inside: CallServices, call_id: str) -> dict[str, Any] | ToolOutcome:
        run: Run = inside.run
        plan_id = next((record.id for record in run.plans.values() if record.call_id == call_id), "")  # by a dead process
        if not plan_id:
            try:
                checked = await self._make(asked, inside, call_id)
            except ModelError as error:
                return failure("planner_failed", f"The planner failed: {error.what}", "Try again, or do it without a plan.")
            if checked.plan is None:
                wrong = "\n".join(f"- {problem}" for problem in checked.problems)
                problem = f"No plan was run: it is still invalid after {ATTEMPTS} attempts:\n{wrong}"
                return failure(checked.code, problem, "Fix these problems.")
            plan_id = f"plan-{uuid4().hex[:8]}"
            plan = {**checked.plan.chat_data, "id": plan_id, **_about(asked, run)}
            inside.record(PlanProposed, plan_id=plan_id, plan=plan, call_id=call_id)
        if asked.mode == DRAFT:
            _close_earlier(inside, plan_id)
            return pending(spec_of(run.plans[plan_id]), stored_plan(run, plan_id))
        if asked.mode == REVIEW:
            await self._review(asked, run.plans[plan_id], inside, call_id)
            if run.plans[plan_id].reviews[-1].verdict != "approved":
                return not_run(run.plans[plan_id])
        by = "reviewer" if asked.mode == REVIEW else "model"
        return await self._execution.run(run.plans[plan_id], inside, by=by, call_id=call_id)

    async def _make(self, asked: PlanRequest, inside: CallServices, call_id: str) -> CheckedPlan:
        run: Run = inside.run
        tools, rules = plan_specs(inside), rules_of_run(run)
        intent = asked.intent(run.context_type, run.entity, run.conversation, run.id)
        details = {"call_id": call_id, "execution_mode": asked.mode, "profile": run.profile}
        checked = CheckedPlan(None)
        for _ in range(ATTEMPTS):
            request = plan_request(asked, intent, tools, rules, checked.problems)
            reply = await inside.ask_model(request, GENERATION, model_of(self._execution.model), **details)
            checked = read_plan(reply.message, tools, rules)
            if checked.plan is not None:
                break
        return checked

    async def _review(self, asked: PlanRequest, record: PlanRecord, inside: CallServices, call_id: str) -> None:
        """Have a plan reviewed, unless a dead process already did; if the review fails, the configured verdict applies."""
        if record.reviews:
            return
        details = {"call_id": call_id, "execution_mode": asked.mode, "profile": QUALITY}
        review, notes = None, NO_ANSWER
        try:
            request = review_request(asked, spec_of(record), plan_specs(inside))
            reply = await inside.ask_model(request, OPERATION, model_of(self._reviewer), **details)
            review, notes = read_review(reply.message.text), UNREADABLE
        except ModelError:
            pass
        verdict, notes = review or (self._review_failed, notes)
        inside.record(PlanReviewed, plan_id=record.id, verdict=verdict, notes=notes, failed=review is None)

    async def _run_draft(self, asked: PlanRequest, inside: CallServices, call_id: str) -> dict[str, Any] | ToolOutcome:
        run: Run = inside.run
        drafts = drafts_of(run)
        draft = drafts.get(asked.plan_id)
        if draft is None:
            hint = f"Drafts: {', '.join(drafts)}." if drafts else "This conversation has no drafts."
            return failure(UNKNOWN_PLAN, f"There is no draft {asked.plan_id}. {hint}", "Make a plan first.")
        if not is_approved(run, draft.id, call_id):  # by a dead process
            if draft.is_open and draft.id not in run.plans:  # so that the person is asked about it
                plan = {**spec_of(draft).chat_data, **_about(asked._replace(mode=DRAFT), run)}
                inside.record(PlanProposed, plan_id=draft.id, plan=plan, call_id=call_id)
            if (refusal := _refusal(draft)) is not None:
                return refusal
        return await self._execution.run(draft, inside, by="person", call_id=call_id)


def _refusal(draft: PlanRecord) -> ToolOutcome | None:
    """Return the reason why a draft may not run, or None."""
    if draft.status == "rejected":
        why = f" They said: {reason}" if (reason := reason_of(draft)) else ""
        return failure(DECLINED_PLAN, f"The draft {draft.id} was declined and stays closed.{why}", "Make another plan, or ask.")
    if draft.status == "approved":
        return failure(ALREADY_EXECUTED, f"The draft {draft.id} has already run: a draft runs only once.", "Make a new plan.")
    if clear_word(draft.words) != "yes":
        problem = f"The draft {draft.id} is not approved: only a clear yes from the person approves it."
        return failure(NOT_APPROVED, problem, "Say what it would do, and end your turn: then the person is asked.")
    return None


def _close_earlier(inside: CallServices, plan_id: str) -> None:
    """Close earlier drafts of this run; the person is asked about the newest one."""
    for record in [*inside.run.plans.values()]:
        if is_draft(record) and record.is_open and record.id != plan_id:
            inside.record(PlanRejected, plan_id=record.id, by=PLANNER, reason=f"{plan_id} replaced it")


def _about(asked: PlanRequest, run: Run) -> dict[str, Any]:
    """Return a plan's log fields, other than the plan itself."""
    return {
        "objective": asked.objective,
        "execution_mode": asked.mode,
        "mode": run.context_type,
        "requested_outputs": list(asked.requested_outputs),
        "priority_entities": list(asked.priority_entities),
    }
