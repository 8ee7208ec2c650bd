"""The tool ``agent_create_plan``: makes a plan, and runs it, leaves it as a draft, or has it reviewed first."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from uuid import uuid4

import msgspec
from msgspec import structs

from agentnb.chat.logged_context import contexts_of_log
from agentnb.chat.plans.drafts import drafts_of
from agentnb.chat.plans.plan_outcome import executed, not_run, pending
from agentnb.chat.plans.plan_request import DRAFT, NAME, REVIEW, SPEC, PlanRequest, read_request
from agentnb.chat.plans.plan_review import NO_ANSWER, OPERATION, UNREADABLE, Review, Verdict, read_review, review_request
from agentnb.chat.plans.planning import ATTEMPTS, Made, plan_request, read_made
from agentnb.core.log.work_events import PlanApproved, PlanProposed, PlanReviewed
from agentnb.core.messages import Text
from agentnb.core.plans.plan_history import GENERATION
from agentnb.core.request import ToolSpec
from agentnb.core.todos import TODO_TOOL
from agentnb.detect.run import Run
from agentnb.errors import ModelError
from agentnb.models.model import Model
from agentnb.models.registry import make_model
from agentnb.tools.signature import refused_arguments
from agentnb.tools.tool import Inside, Tool, ToolContext, ToolOutcome, failure
from agentnb.workflow.plan import Plan
from agentnb.workflow.plans.plan_spec import PlanSpec

NOT_APPROVED, ALREADY_EXECUTED, UNKNOWN_PLAN = "not_approved", "already_executed", "unknown_plan"
"""The codes of errors of a call that names a draft."""
QUALITY = "quality"
"""The profile of reviews."""
_NOT_OF_PLANS = frozenset({NAME, TODO_TOOL})
"""Tools that no step of a plan calls."""


class PlanTool:
    """Makes and runs plans for the model of a chat."""

    spec = SPEC
    effects = frozenset({"read"})  # what its steps do is judged call by call
    parallel_safe = False
    blocking = False

    def __init__(
        self,
        model: str | Model | None,
        reviewer: str | Model | None,
        max_tool_calls: int,
        max_seconds: float | None,
        review_failed: Verdict,
    ) -> None:
        """As for `Plans`."""
        self._model, self._reviewer = model, reviewer
        self._max_tool_calls = max_tool_calls
        self.timeout = max_seconds
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
        try:
            made = await self._make(asked, inside, call_id)
        except ModelError as error:
            return failure("planner_failed", f"The planner failed: {error.what}", "Try again, or do it without a plan.")
        if made.plan is None or made.code:
            wrong = "\n".join(f"- {problem}" for problem in made.problems)
            return failure(made.code, f"No plan was run: after {ATTEMPTS} attempts it is still wrong:\n{wrong}", "Mend this.")
        plan = structs.replace(made.plan, id=f"plan-{uuid4().hex[:8]}")
        inside.record(PlanProposed, plan_id=plan.id, plan=_draft(plan, asked, inside.run), call_id=call_id)
        if asked.mode == DRAFT:
            return _success(pending(plan))
        review = None
        if asked.mode == REVIEW:
            review, has_failed = await self._review(asked, plan, inside, call_id)
            inside.record(PlanReviewed, plan_id=plan.id, verdict=review.verdict, notes=review.notes)
            if review.verdict != "approved":
                return _success(not_run(plan, review, failed=has_failed))
        return await self._execute(plan, inside, call_id, review, by="reviewer" if review is not None else "model")

    async def _make(self, asked: PlanRequest, inside: Inside, call_id: str) -> Made:
        run: Run = inside.run
        tools, known = _specs(inside), contexts_of_log(run)
        rules = [rule for name in run.contexts if (found := known.get(name)) is not None for rule in found.plan_rules]
        intent = asked.intent(run.context_type, run.entity, run.conversation, run.id)
        made: Made | None = None
        for _ in range(ATTEMPTS):
            request = plan_request(asked, intent, tools, rules, made)
            about = {"call_id": call_id, "execution_mode": asked.mode, "profile": run.profile}
            reply = await inside.ask_model(request, GENERATION, _model(self._model), **about)
            made = read_made(reply.message.text, reply.message.calls, tools, rules)
            if made.plan is not None and not made.code:
                return made
        assert made is not None, "it was tried"
        return made

    async def _review(self, asked: PlanRequest, plan: PlanSpec, inside: Inside, call_id: str) -> tuple[Review, bool]:
        """Return the review of a plan, and whether it failed: then its verdict is that of the settings."""
        about = {"call_id": call_id, "execution_mode": asked.mode, "profile": QUALITY}
        try:
            request = review_request(asked, plan, [spec.name for spec in _specs(inside)])
            reply = await inside.ask_model(request, OPERATION, _model(self._reviewer), **about)
        except ModelError:
            return Review(self._review_failed, NO_ANSWER), True
        found = read_review(reply.message.text)
        return (Review(self._review_failed, UNREADABLE), True) if found is None else (found, False)

    async def _run_draft(self, asked: PlanRequest, inside: Inside, call_id: str) -> ToolOutcome:
        known = drafts_of(inside.run)
        draft = known.get(asked.plan_id)
        if draft is None:
            there = f"There is {', '.join(known)}." if known else "There is none in this conversation."
            return failure(UNKNOWN_PLAN, f"There is no draft {asked.plan_id}. {there}", "Make a plan first.")
        if draft.has_run:
            return failure(ALREADY_EXECUTED, f"The draft {asked.plan_id} has run: a draft runs once.", "Make a new plan.")
        if not draft.was_answered:
            what = f"The draft {asked.plan_id} is not approved: only the person can approve it, not you."
            return failure(NOT_APPROVED, what, "Show it to the person, and wait for the answer.")
        if asked.plan_id not in inside.run.plans:
            plan = _draft(draft.plan, asked._replace(mode=DRAFT), inside.run)
            inside.record(PlanProposed, plan_id=asked.plan_id, plan=plan, call_id=call_id)
        return await self._execute(structs.replace(draft.plan, id=asked.plan_id), inside, call_id, None, by="person")

    async def _execute(self, plan: PlanSpec, inside: Inside, call_id: str, review: Review | None, by: str) -> ToolOutcome:
        inside.record(PlanApproved, plan_id=plan.id, by=by, call_id=call_id)
        tools = [tool for tool in inside.tools if tool.spec.name not in _NOT_OF_PLANS]
        model = _model(self._model) or inside.model
        settings = {"max_tool_calls": self._max_tool_calls, "todos": False}
        what = Plan.of(plan).orchestration(tools=tools, model=model, agent_settings=settings)
        run: Run = await inside.start_run(what, "")
        return _success(executed(plan, run, review))


def _specs(inside: Inside) -> Sequence[ToolSpec]:
    tools: tuple[Tool, ...] = inside.tools
    return [tool.spec for tool in tools if tool.spec.name not in _NOT_OF_PLANS]


def _model(given: str | Model | None) -> Model | None:
    return None if given is None else make_model(given)


def _draft(plan: PlanSpec, asked: PlanRequest, run: Run) -> dict[str, Any]:
    """Return the plan as the log holds it."""
    about = {"objective": asked.objective, "execution_mode": asked.mode, "mode": run.context_type}
    outputs = {"requested_outputs": list(asked.requested_outputs), "priority_entities": list(asked.priority_entities)}
    return {**plan.chat_data, **about, **outputs}


def _success(result: Mapping[str, Any]) -> ToolOutcome:
    return ToolOutcome(True, (Text(msgspec.json.encode(result).decode()),), dict(result))
