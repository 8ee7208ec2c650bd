"""The end of a turn that made a draft: the person is asked about it, and what they approve runs at once."""

from __future__ import annotations

from functools import partial
from itertools import takewhile

import msgspec

from agentnb.chat.logged_context import rules_of_run
from agentnb.chat.plans.drafts.draft_edits import checked_edit
from agentnb.chat.plans.drafts.draft_question import KIND, STEPS, draft_question, read_answer
from agentnb.chat.plans.drafts.known_drafts import Draft, drafts_of
from agentnb.chat.plans.plan_execution import CALLS, PlanExecution, plan_specs, shown_calls_allowed
from agentnb.chat.plans.plan_reach import reach_of
from agentnb.chat.plans.plan_request import DRAFT, PLANNER
from agentnb.chat.prompts import filled, prompt
from agentnb.core.log.events import QuestionAnswered, RoundStarted
from agentnb.core.log.work_events import PlanApproved, PlanEdited, PlanRejected, StepFinished
from agentnb.core.run.rounds import PLAN_DECLINED, PLAN_EXECUTED
from agentnb.core.run.work_records import PlanRecord
from agentnb.detect.run import Run
from agentnb.errors import AgentnbError, SettingsError, StoreError
from agentnb.policies.verdict import AskBetween, Continue, Interlude
from agentnb.runtime.run_end import Suspended
from agentnb.tools.tool import Inside
from agentnb.workflow.plans.plan_spec import PlanSpec


class DraftTurn:
    """What comes before a turn ends: the question about its draft, or a round in which the model reads what came of it."""

    def __init__(self, execution: PlanExecution) -> None:
        self._execution = execution

    def __call__(self, run: Run) -> Continue | Interlude | None:
        """Return what comes first; None if no draft of this run is open, and nothing of one is untold. An ending."""
        if not run.plans:
            return None
        if (told := _told(run)) is not None:
            return told
        for plan_id, record in run.plans.items():  # one at most is open
            if record.plan.get("execution_mode") == DRAFT and (record.is_open or _is_due(run, record)):
                return Interlude(plan_id, partial(self._settle, plan_id))
        return None

    async def _settle(self, plan_id: str, inside: Inside, ask: AskBetween) -> None:
        """Ask about a draft until it is approved or declined, or has changed; run what was approved."""
        run: Run = inside.run
        draft, problem = drafts_of(run)[plan_id], ""
        if _is_closed_by_words(plan_id, inside):
            return
        while draft.status == "open":
            specs = plan_specs(inside)
            answer = await ask(draft_question(draft.plan, reach_of(draft.plan, specs), problem))
            if answer is None:  # what the person has written decides
                _is_closed_by_words(plan_id, inside)
                return
            made = read_answer(answer)
            by = _who_answered(run)
            if made.approved:
                break
            if made.arguments is None:
                inside.record(PlanRejected, plan_id=plan_id, by=by, reason=made.reason)
                return
            try:
                edited = checked_edit(draft.plan, made.arguments[STEPS], specs, rules_of_run(run))
            except SettingsError as error:
                problem = error.what
            else:
                inside.record(PlanEdited, plan_id=plan_id, plan={**run.plans[plan_id].plan, **edited.chat_data}, by=by)
                return
        await self._execute(draft, inside, run.plans[plan_id].by or _who_answered(run))

    async def _execute(self, draft: Draft, inside: Inside, by: str) -> None:
        with inside.held(), shown_calls_allowed(draft.plan, inside, by):
            try:
                await self._execution.run(draft.plan, inside, by=by, is_edited=draft.is_edited)
            except (StoreError, Suspended):
                raise
            except (AgentnbError, TimeoutError) as error:  # the step has it; the model is told
                if inside.run.step_records.get(draft.plan.id or "") is None:
                    reason = error.what if isinstance(error, AgentnbError) else str(error)
                    inside.record(PlanRejected, plan_id=draft.plan.id, by="agentnb", reason=reason)


def _is_closed_by_words(plan_id: str, inside: Inside) -> bool:
    """Return whether a clear no of the person has closed a draft, and log that."""
    run: Run = inside.run
    draft = drafts_of(run)[plan_id]
    is_closed = draft.status == "declined" and run.plans[plan_id].is_open
    if is_closed:
        inside.record(PlanRejected, plan_id=plan_id, words=draft.reason)
    return is_closed


def kept_plans(run: Run) -> str:
    """Return the plan that the person approved last and the drafts that are open, which no summary may change."""
    assert isinstance(run, Run)
    drafts = [*drafts_of(run).values()]
    approved = [draft.plan for draft in drafts if draft.status == "approved"][-1:]
    kept = [("The plan that the person approved", plan) for plan in approved]
    kept += [("A draft that the person has not approved", draft.plan) for draft in drafts if draft.status == "open"]
    return "\n\n".join(_filled("draft_kept", heading=heading, plan=plan_text(plan)) for heading, plan in kept)


def plan_text(plan: PlanSpec) -> str:
    """Return a plan as models read it."""
    return msgspec.json.encode(plan.chat_data).decode()


def _told(run: Run) -> Continue | None:
    """Return the round in which the model reads what came of a draft since the last round; None if nothing did."""
    own = {one.plan_id for one in run.events if isinstance(one, PlanApproved) and not one.call_id}  # calls have told of others
    for event in takewhile(lambda one: not isinstance(one, RoundStarted), reversed(run.events)):
        if isinstance(event, StepFinished) and event.step in own:
            record = run.plans[event.step]
            output = event.output if isinstance(event.output, dict) else {"status": "failed", "error": event.error}
            result = {key: value for key, value in output.items() if key != CALLS}
            plan = {key: one for key, one in record.plan.items() if key in ("id", "steps", "reasoning")}
            given = {"plan": msgspec.json.encode(plan).decode(), "result": msgspec.json.encode(result).decode()}
            return Continue(PLAN_EXECUTED, _filled("draft_executed", plan_id=event.step, **given), is_news=True)
        if isinstance(event, PlanRejected) and event.reason and event.by != PLANNER:
            told = _filled("draft_declined", plan_id=event.plan_id, reason=event.reason)
            return Continue(PLAN_DECLINED, told, is_news=True)
    return None


def _is_due(run: Run, record: PlanRecord) -> bool:
    """Return whether an approved draft still has to run: the process died after the approval."""
    step = run.step_records.get(record.id)
    return record.status == "approved" and (step is None or step.status == "running")


def _who_answered(run: Run) -> str:
    """Return who gave the last answer about a draft."""
    kinds = {one.question.id: one.question.kind for one in run.questions}
    answers = (one for one in reversed(run.events) if isinstance(one, QuestionAnswered) and kinds.get(one.question_id) == KIND)
    return next((one.by for one in answers), "person")


def _filled(name: str, **values: str) -> str:
    return filled(prompt(name), values)
