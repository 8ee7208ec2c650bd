"""The end of a turn that made a draft: the person is asked about it, and if they approve, it runs at once."""

from __future__ import annotations

from functools import partial
from itertools import takewhile
from typing import Any

import msgspec

from agentnb.chat.logged_context import rules_of_run
from agentnb.chat.plans.draft_edits import check_edit
from agentnb.chat.plans.draft_question import KIND, STEPS, draft_question
from agentnb.chat.plans.known_drafts import data_of, drafts_of, is_draft, spec_of
from agentnb.chat.plans.plan_execution import PlanExecution, plan_specs, shown_calls_allowed, without_calls
from agentnb.chat.plans.planning import PLANNER
from agentnb.chat.prompts import fill, prompt
from agentnb.core.log.events import RoundStarted
from agentnb.core.log.work_events import PlanApproved, PlanEdited, PlanRejected, StepFinished
from agentnb.core.run.approvals import decision
from agentnb.core.run.rounds import PLAN_DECLINED, PLAN_EXECUTED
from agentnb.core.run.work_records import PlanRecord
from agentnb.detect.run import Run
from agentnb.errors import AgentnbError, SettingsError, StoreError
from agentnb.policies.verdict import AskBetween, Continue, Interlude
from agentnb.runtime.run_end import Suspended
from agentnb.tools.tool import CallServices


class DraftTurn:
    """The last steps of a turn: the question about its draft, or a round that tells the model the outcome."""

    def __init__(self, execution: PlanExecution) -> None:
        self._execution = execution

    def __call__(self, run: Run) -> Continue | Interlude | None:
        """Return the next step before the end, or None if no draft is open and all outcomes are reported. Used as an ending."""
        if not run.plans:
            return None
        if (news := _find_news(run)) is not None:
            return news
        for plan_id, record in run.plans.items():  # at most one is open
            is_asked = is_draft(record) and (record.is_open or _is_due(run, record))
            if is_asked and plan_id in drafts_of(run):  # else it is unreadable
                return Interlude(plan_id, partial(self._settle, plan_id))
        return None

    async def _settle(self, plan_id: str, inside: CallServices, ask: AskBetween) -> None:
        """Ask about a draft until it is approved, declined or changed; run it once approved."""
        run, problem = inside.run, ""
        while (draft := drafts_of(run)[plan_id]).is_open:
            plan, specs = spec_of(draft), plan_specs(inside)
            answer = await ask(draft_question(plan, specs, problem))
            if answer is None:  # the person's messages decide
                if drafts_of(run)[plan_id].is_open:
                    return
                continue
            verdict, by = decision(answer), _who_answered(run)
            if verdict.arguments is not None:  # edited steps, not yet approved
                try:
                    edited = check_edit(plan, verdict.arguments[STEPS], specs, rules_of_run(run)).chat_data
                except SettingsError as error:
                    problem = error.what
                    continue
                inside.record(PlanEdited, plan_id=plan_id, plan={**run.plans[plan_id].plan, **edited}, by=by)
                return
            if not verdict.approved:
                inside.record(PlanRejected, plan_id=plan_id, by=by, reason=verdict.reason)
                return
            break
        if draft.status == "rejected":
            inside.record(PlanRejected, plan_id=plan_id, words=draft.words)
        else:
            await self._execute(draft, inside, run.plans[plan_id].by or _who_answered(run))

    async def _execute(self, draft: PlanRecord, inside: CallServices, by: str) -> None:
        with inside.held(), shown_calls_allowed(draft, inside, by):
            try:
                await self._execution.run(draft, inside, by=by)
            except (StoreError, Suspended):
                raise
            except (AgentnbError, TimeoutError) as error:  # the step has the error; the model is informed
                if inside.run.step_records.get(draft.id) is None:
                    reason = error.what if isinstance(error, AgentnbError) else str(error)
                    inside.record(PlanRejected, plan_id=draft.id, by="agentnb", reason=reason)


def kept_plans(run: Run) -> str:
    """Return the latest approved plan and the open drafts: summaries must preserve them."""
    drafts = [*drafts_of(run).values()]
    kept = [("The plan that the person approved", draft) for draft in drafts if draft.status == "approved"][-1:]
    kept += [("A draft that the person has not approved", draft) for draft in drafts if draft.is_open]
    return "\n\n".join(_fill_prompt("draft_kept", heading=heading, plan=spec_of(draft).chat_data) for heading, draft in kept)


def _find_news(run: Run) -> Continue | None:
    """Return a round that tells the model the outcome of a draft since the last round, or None."""
    # Other plans are reported by their calls.
    own = {event.plan_id for event in run.events if isinstance(event, PlanApproved) and not event.call_id}
    for event in takewhile(lambda event: not isinstance(event, RoundStarted), reversed(run.events)):
        if isinstance(event, StepFinished) and event.step in own:
            output = event.output if isinstance(event.output, dict) else {"status": "failed", "error": event.error}
            values = {"plan": data_of(run.plans[event.step]), "result": without_calls(output)}
            return Continue(PLAN_EXECUTED, _fill_prompt("draft_executed", plan_id=event.step, **values), is_news=True)
        if isinstance(event, PlanRejected) and event.reason and event.by != PLANNER:
            text = _fill_prompt("draft_declined", plan_id=event.plan_id, reason=event.reason)
            return Continue(PLAN_DECLINED, text, is_news=True)
    return None


def _is_due(run: Run, record: PlanRecord) -> bool:
    """True if an approved draft has yet to run, because the process died after the approval."""
    step = run.step_records.get(record.id)
    return record.status == "approved" and (step is None or step.status == "running")


def _who_answered(run: Run) -> str:
    """Return who gave the latest answer about a draft."""
    answered = (entry for entry in reversed(run.questions) if entry.question.kind == KIND and entry.has_answer)
    return next((entry.by for entry in answered), "person")


def _fill_prompt(name: str, **values: Any) -> str:
    """Return a prompt with values inserted; values other than strings become JSON."""
    texts = {key: value if isinstance(value, str) else msgspec.json.encode(value).decode() for key, value in values.items()}
    return fill(prompt(name), texts)
