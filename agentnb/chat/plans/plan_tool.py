"""The tool ``agent_create_plan``: makes a plan, and runs it, leaves it as a draft, or has it reviewed first."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple
from uuid import uuid4

import msgspec
from msgspec import structs

from agentnb.chat.logged_context import rules_of_run
from agentnb.chat.plans.drafts.clear_words import clear_word
from agentnb.chat.plans.drafts.known_drafts import Draft, drafts_of, spec_of
from agentnb.chat.plans.plan_execution import PlanExecution, is_approved, plan_specs
from agentnb.chat.plans.plan_outcome import not_run, pending
from agentnb.chat.plans.plan_request import DRAFT, NAME, PLANNER, REVIEW, SPEC, PlanRequest, read_request
from agentnb.chat.plans.plan_review import (
    NO_ANSWER,
    OPERATION,
    REVIEWER,
    UNREADABLE,
    Review,
    Verdict,
    read_review,
    review_request,
)
from agentnb.chat.plans.plan_rules import broken_rules, hints
from agentnb.chat.prompts import prompt
from agentnb.core.log.work_events import PlanProposed, PlanRejected, PlanReviewed
from agentnb.core.messages import Text, encodable, user
from agentnb.core.plans.plan_history import GENERATION, PlanHistory
from agentnb.core.plans.plan_steps import PENDING, StepProgress
from agentnb.core.redaction import redact
from agentnb.core.request import Request, ToolSpec
from agentnb.detect.run import Run
from agentnb.errors import BrokenReply, ModelError, SettingsError, near
from agentnb.models.model import Model
from agentnb.models.registry import make_model
from agentnb.tools.signature import refused_arguments
from agentnb.tools.tool import Inside, ToolContext, ToolOutcome, failure
from agentnb.workflow.plans.plan_checks import read_for_tools
from agentnb.workflow.plans.plan_reader import OF_CHAT_STEPS
from agentnb.workflow.plans.plan_spec import PlanSpec
from agentnb.workflow.plans.reply_plans import plan_in_reply


def stored_plan(run: Run, plan_id: str) -> dict[str, Any]:
    """Return a plan of a run as plain data, as the documents store it. Raises `SettingsError` if the run has no such plan.

    Times are ISO 8601, UTC. ``intent_label`` is None: plans have no labels.
    """
    history = PlanHistory(run.events)
    found = next((plan for plan in history.plans if plan.id == plan_id), None)
    if found is None:
        known = [plan.id for plan in history.plans]
        raise SettingsError(f"Run {run.id} has no plan {plan_id!r}", near(plan_id, known))
    plan = found.record.plan
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
        "edits": found.record.edits,
        "created_at": _iso(found.made_at),
        "started_at": _iso(found.began_at),
        "completed_at": _iso(found.ended_at),
    }


def _written(plan: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    steps = plan.get("steps")
    return [one if isinstance(one, Mapping) else {} for one in steps] if isinstance(steps, list | tuple) else []


def _step(data: Mapping[str, Any], step: StepProgress) -> dict[str, Any]:
    became = {"status": step.status or PENDING, "result": step.result, "error": step.error or None}
    return {**{name: data.get(name) for name in OF_CHAT_STEPS}, **became}


def _review(run: Run, plan_id: str) -> dict[str, str] | None:
    """Return the last review of a plan."""
    reviews = [event for event in run.events if isinstance(event, PlanReviewed) and event.plan_id == plan_id]
    return {"verdict": reviews[-1].verdict, "notes": reviews[-1].notes, "reviewer": REVIEWER} if reviews else None


def _iso(at: datetime | None) -> str | None:
    return None if at is None else at.isoformat().replace("+00:00", "Z")


ATTEMPTS = 2
INVALID, RULES = "invalid_plan", "plan_rules"
"""The codes of errors: a plan that is not valid, and one that breaks the rules of its context."""
MAX_PROBLEMS = 10


class Made(NamedTuple):
    """What came of an attempt: a plan, or what is wrong with it."""

    plan: PlanSpec | None = None
    code: str = ""
    problems: tuple[str, ...] = ()


def plan_request(
    asked: PlanRequest,
    intent: Mapping[str, Any],
    tools: Sequence[ToolSpec],
    rules: Sequence[Mapping[str, Any]],
    before: Made | None,
) -> Request:
    """Return the request for a plan. ``before``: the attempt whose problems are to be mended."""
    parts = [prompt("chat_planner")]
    if told := hints(rules):
        parts.append("## Rules of this context\n\n" + "\n".join(f"- {one}" for one in told))
    text = f"## What is wanted\n\n{msgspec.json.encode(dict(intent)).decode()}"
    if before is not None:
        wrong = "\n".join(f"- {one}" for one in before.problems)
        text += f"\n\n## What was wrong in the last plan\n\n{wrong}\n\nWrite the whole plan again: the bare JSON object."
    wanted = dict.fromkeys((asked.objective, asked.message))  # a blank objective is the message
    planning = {"query": "\n\n".join(wanted), "results": []}
    return redact(Request(encodable("\n\n".join(parts)), (user(encodable(text)),), tuple(tools), {"planning": planning}))


def read_made(text: str, calls: Sequence[Any], tools: Sequence[ToolSpec], rules: Sequence[Mapping[str, Any]]) -> Made:
    """Return the plan of a reply with ids of its own, checked; or what is wrong with it."""
    try:
        read = plan_in_reply(text, calls)
    except BrokenReply as error:
        return Made(None, INVALID, (error.what,))
    if read is None or not read.plan.steps:
        return Made(None, INVALID, ("the reply holds no plan with steps",))
    checked, found = read_for_tools(read.plan.chat_data, tools)
    problems = [str(problem) for problem in found.found]
    if checked is None or problems:
        return Made(read.plan, INVALID, tuple(problems[:MAX_PROBLEMS]))
    plan = structs.replace(checked.plan, form="chat")
    if broken := broken_rules(plan, rules):
        told = tuple([f"the rules of the context ask for {name}: once, in the given order" for name in broken])
        return Made(plan, RULES, told)
    return Made(plan)


NOT_APPROVED, ALREADY_EXECUTED, UNKNOWN_PLAN, DECLINED_PLAN = "not_approved", "already_executed", "unknown_plan", "declined"
"""The codes of errors of a call that names a draft."""
QUALITY = "quality"
"""The profile of reviews."""


class PlanTool:
    """Makes and runs plans for the model of a chat."""

    spec = SPEC
    effects = frozenset({"read"})  # what its steps do is judged call by call
    parallel_safe = False
    blocking = False
    repeatable = True  # what a process that died had begun goes on

    def __init__(self, execution: PlanExecution, reviewer: str | Model | None, review_failed: Verdict) -> None:
        """``execution`` runs the plans; the others as for `Plans`."""
        self._execution = execution
        self._reviewer = reviewer
        self.timeout = execution.max_seconds
        self._review_failed = review_failed

    async def run(self, arguments: Any, context: ToolContext) -> ToolOutcome:
        """Do what the call asks for; whatever goes wrong is an error result that says what to mend."""
        inside = context.inside
        if not isinstance(arguments, Mapping) or inside is None:
            return refused_arguments(NAME, arguments, SPEC.input_schema)
        run: Run = inside.run
        asked = read_request(arguments, run.prompt)
        if isinstance(asked, ToolOutcome):
            return asked
        with inside.held():  # its time is its own
            if asked.plan_id:
                return await self._run_draft(asked, inside, context.call_id)
            return await self._make_and_run(asked, inside, context.call_id)

    async def _make_and_run(self, asked: PlanRequest, inside: Inside, call_id: str) -> ToolOutcome:
        plan = _made_before(inside.run, call_id)
        if plan is None:
            try:
                made = await self._make(asked, inside, call_id)
            except ModelError as error:
                return failure("planner_failed", f"The planner failed: {error.what}", "Try again, or do it without a plan.")
            if made.plan is None or made.code:
                wrong = "\n".join(f"- {problem}" for problem in made.problems)
                what = f"No plan was run: after {ATTEMPTS} attempts it is still wrong:\n{wrong}"
                return failure(made.code, what, "Mend this.")
            plan = structs.replace(made.plan, id=f"plan-{uuid4().hex[:8]}")
            inside.record(PlanProposed, plan_id=plan.id, plan=_draft(plan, asked, inside.run), call_id=call_id)
        if asked.mode == DRAFT:
            _close_earlier(inside, plan)
            return _success(pending(plan, stored_plan(inside.run, plan.id or "")))
        review = None
        if asked.mode == REVIEW:
            review, has_failed = await self._review(asked, plan, inside, call_id)
            if review.verdict != "approved":
                return _success(not_run(plan, review, failed=has_failed))
        by = "reviewer" if review is not None else "model"
        return _success(await self._execution.run(plan, inside, by=by, call_id=call_id, review=review))

    async def _make(self, asked: PlanRequest, inside: Inside, call_id: str) -> Made:
        run: Run = inside.run
        tools, rules = plan_specs(inside), rules_of_run(run)
        intent = asked.intent(run.context_type, run.entity, run.conversation, run.id)
        made: Made | None = None
        for _ in range(ATTEMPTS):
            request = plan_request(asked, intent, tools, rules, made)
            about = {"call_id": call_id, "execution_mode": asked.mode, "profile": run.profile}
            reply = await inside.ask_model(request, GENERATION, self._execution.model, **about)
            made = read_made(reply.message.text, reply.message.calls, tools, rules)
            if made.plan is not None and not made.code:
                return made
        assert made is not None, "it was tried"
        return made

    async def _review(self, asked: PlanRequest, plan: PlanSpec, inside: Inside, call_id: str) -> tuple[Review, bool]:
        """Return the review of a plan, and whether it failed: then its verdict is that of the settings."""
        if reviews := inside.run.plans[plan.id].reviews:  # of a process that died
            return Review(reviews[-1].verdict, reviews[-1].notes), reviews[-1].failed
        about = {"call_id": call_id, "execution_mode": asked.mode, "profile": QUALITY}
        found: Review | None = None
        notes = NO_ANSWER
        try:
            request = review_request(asked, plan, [spec.name for spec in plan_specs(inside)])
            model = None if self._reviewer is None else make_model(self._reviewer)
            reply = await inside.ask_model(request, OPERATION, model, **about)
            found, notes = read_review(reply.message.text), UNREADABLE
        except ModelError:
            pass
        review = found or Review(self._review_failed, notes)
        has_failed = found is None
        inside.record(PlanReviewed, plan_id=plan.id, verdict=review.verdict, notes=review.notes, failed=has_failed)
        return review, has_failed

    async def _run_draft(self, asked: PlanRequest, inside: Inside, call_id: str) -> ToolOutcome:
        run: Run = inside.run
        known = drafts_of(run)
        draft = known.get(asked.plan_id)
        if draft is None:
            there = f"There is {', '.join(known)}." if known else "There is none in this conversation."
            return failure(UNKNOWN_PLAN, f"There is no draft {asked.plan_id}. {there}", "Make a plan first.")
        if not is_approved(run, asked.plan_id, call_id):  # in a process that died
            if draft.status == "open" and asked.plan_id not in run.plans:  # so that the person is asked about it
                plan = _draft(draft.plan, asked._replace(mode=DRAFT), run)
                inside.record(PlanProposed, plan_id=asked.plan_id, plan=plan, call_id=call_id)
            if (refusal := _refusal(asked.plan_id, draft)) is not None:
                return refusal
        words, is_edited = draft.words, draft.is_edited
        result = await self._execution.run(draft.plan, inside, by="person", call_id=call_id, words=words, is_edited=is_edited)
        return _success(result)


def _refusal(plan_id: str, draft: Draft) -> ToolOutcome | None:
    """Return why a draft may not be run; None if it may."""
    if draft.status == "declined":
        why = f" They said: {draft.reason}" if draft.reason else ""
        return failure(DECLINED_PLAN, f"The draft {plan_id} was declined and stays closed.{why}", "Make another plan, or ask.")
    if draft.status == "approved":
        return failure(ALREADY_EXECUTED, f"The draft {plan_id} has run: a draft runs once.", "Make a new plan.")
    if clear_word(draft.words) != "yes":
        what = f"The draft {plan_id} is not approved: only a clear yes of the person approves it, and you have none."
        return failure(NOT_APPROVED, what, "Say what it would do, and end your turn: the person is asked then.")
    return None


def _made_before(run: Run, call_id: str) -> PlanSpec | None:
    """Return the plan that this call had made in a process that died."""
    made = [event for event in run.events if isinstance(event, PlanProposed) and event.call_id == call_id]
    return structs.replace(spec_of(made[-1].plan), id=made[-1].plan_id, form="chat") if made else None


def _close_earlier(inside: Inside, plan: PlanSpec) -> None:
    """Close the drafts that this run made before: the person is asked about the newest."""
    for plan_id, record in [*inside.run.plans.items()]:
        is_draft = record.plan.get("execution_mode") == DRAFT and record.is_open
        if is_draft and plan_id != plan.id:
            inside.record(PlanRejected, plan_id=plan_id, by=PLANNER, reason=f"{plan.id} replaced it")


def _draft(plan: PlanSpec, asked: PlanRequest, run: Run) -> dict[str, Any]:
    """Return the plan as the log holds it."""
    about = {"objective": asked.objective, "execution_mode": asked.mode, "mode": run.context_type}
    outputs = {"requested_outputs": list(asked.requested_outputs), "priority_entities": list(asked.priority_entities)}
    return {**plan.chat_data, **about, **outputs}


def _success(result: Mapping[str, Any]) -> ToolOutcome:
    return ToolOutcome(True, (Text(msgspec.json.encode(result).decode()),), dict(result))
