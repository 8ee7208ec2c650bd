"""The drafts of a conversation: what became of each, in this run and in those that it continues."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Literal, NamedTuple, TypeAlias, get_args

from agentnb.agent.extension import logged_extensions
from agentnb.chat.plans.drafts.clear_words import clear_word
from agentnb.chat.plans.plan_request import DRAFT
from agentnb.core.log.events import CommandReceived, QuestionAsked, RoundStarted, RunRecovered
from agentnb.core.log.work_events import PlanApproved, PlanEdited, PlanProposed, PlanRejected
from agentnb.core.run.approvals import CONTINUED
from agentnb.detect.run import Run
from agentnb.errors import AgentnbError
from agentnb.workflow.plan import Plan
from agentnb.workflow.plans.plan_spec import PlanSpec

EXTENSION = "plans"
"""The name of the extension, whose settings carry the drafts of a conversation from run to run."""
CARRIED = "drafts"
UNREADABLE = (AgentnbError, KeyError, TypeError, AttributeError)
"""Exceptions of drafts in a log that was changed, or that another version wrote: the conversation goes on without them."""
ELSEWHERE = "Another run continues the one that made it."
DraftStatus: TypeAlias = Literal["open", "approved", "declined"]


class Draft(NamedTuple):
    """A draft as it stands."""

    plan: PlanSpec
    status: DraftStatus = "open"
    words: str = ""
    """The last words of the person since it was shown to them that answer no question; empty without any."""
    is_edited: bool = False
    """Whether the person has changed it."""
    reason: str = ""
    """Why it was declined."""

    @property
    def data(self) -> dict[str, Any]:
        """The draft as plain data; of a declined one only its id."""
        plan = {"id": self.plan.id} if self.status == "declined" else self.plan.chat_data
        about = {"is_edited": self.is_edited, "reason": self.reason}
        return {"plan": plan, "status": self.status, **{key: value for key, value in about.items() if value}}


def drafts_of(run: Run) -> dict[str, Draft]:
    """Return the drafts by id, oldest first: of the runs that this one continues, then its own."""
    found = {name: _after(draft, run.prompt) for name, draft in _carried(run).items()}
    seen = {*found}
    for event in run.events:
        if isinstance(event, RoundStarted | QuestionAsked):  # words that come earlier were written without a look at it
            seen.update(found)
        elif isinstance(event, CommandReceived):
            if event.command == "say":
                found.update({name: _after(found[name], event.text) for name in seen})
        elif isinstance(event, PlanProposed) and event.plan_id not in found:
            with suppress(*UNREADABLE):
                if event.plan.get("execution_mode") == DRAFT:
                    found[event.plan_id] = Draft(spec_of(event.plan))
        elif isinstance(event, PlanEdited | PlanApproved | PlanRejected) and event.plan_id in found:
            found[event.plan_id] = _changed(found[event.plan_id], event)
        elif isinstance(event, RunRecovered) and event.consent == "refused":
            found = {name: _without_consent(draft, run) for name, draft in found.items()}
    return found


def carried_drafts(before: Run) -> list[dict[str, Any]]:
    """Return the drafts for a run that continues this one: of closed ones the ids, and of the last approved one the plan."""
    drafts = [*drafts_of(before).values()]
    if before.stop_reason == CONTINUED:  # by another run, which has them
        drafts = [one._replace(status="declined", reason=ELSEWHERE) if one.status == "open" else one for one in drafts]
    approved = [draft for draft in drafts if draft.status == "approved"]
    known = [draft.data for draft in drafts]
    last = approved[-1].data if approved else None
    return [{**one, "plan": {"id": one["plan"]["id"]}} if one["status"] == "approved" and one != last else one for one in known]


def spec_of(data: Mapping[str, Any]) -> PlanSpec:
    """Return a plan as the log has it."""
    return Plan.read({key: data[key] for key in ("id", "steps", "reasoning") if key in data})


def _carried(run: Run) -> dict[str, Draft]:
    """Return the drafts of earlier runs, from the settings of the extension."""
    settings = logged_extensions(run).get(EXTENSION, {}).get("settings", {})
    carried = settings.get(CARRIED, ()) if isinstance(settings, Mapping) else ()
    found: dict[str, Draft] = {}
    for one in carried if isinstance(carried, list | tuple) else ():
        try:
            plan, status = one["plan"], one["status"]
            is_whole = "steps" in plan or status == "open"
            spec = spec_of(plan) if is_whole else PlanSpec(id=plan["id"], form="chat")
        except UNREADABLE:
            continue
        if isinstance(spec.id, str) and status in get_args(DraftStatus):
            is_edited, reason = one.get("is_edited", False) is True, str(one.get("reason", ""))
            found[spec.id] = Draft(spec, status, is_edited=is_edited, reason=reason)
    return found


def _changed(draft: Draft, event: PlanEdited | PlanApproved | PlanRejected) -> Draft:
    if isinstance(event, PlanEdited):
        return draft._replace(plan=spec_of({**event.plan, "id": event.plan_id}), is_edited=True)
    if isinstance(event, PlanRejected):
        return draft._replace(status="declined", reason=event.reason or event.words)
    return draft._replace(status="approved", words=event.words)


def _after(draft: Draft, words: str) -> Draft:
    """Return a draft after words of the person: a clear no closes it."""
    is_declined = draft.status == "open" and clear_word(words) == "no"
    return draft._replace(status="declined", words=words, reason=words) if is_declined else draft._replace(words=words)


def _without_consent(draft: Draft, run: Run) -> Draft:
    """Return a draft of a log whose approvals and words do not count: it is asked about again unless it has run."""
    step = run.step_records.get(draft.plan.id or "")
    has_ended = step is not None and step.status != "running"
    return draft._replace(words="", status="open" if draft.status == "approved" and not has_ended else draft.status)
