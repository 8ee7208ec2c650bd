"""The drafts of a conversation: what became of each, in this run and in those that it continues."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from msgspec.structs import replace

from agentnb.agent.extension import logged_extensions
from agentnb.chat.plans.clear_words import clear_word
from agentnb.core.log.events import QuestionAsked, RoundStarted, RunRecovered
from agentnb.core.log.work_events import PlanEvent, PlanProposed
from agentnb.core.plans.plan_history import DRAFT
from agentnb.core.run.approvals import CONTINUED
from agentnb.core.run.work_records import PlanRecord, plan_after
from agentnb.detect.run import Run
from agentnb.errors import AgentnbError
from agentnb.workflow.plan import Plan
from agentnb.workflow.plans.plan_reader import OF_CHAT_PLANS, plan_of_data

EXTENSION = "plans"
"""The name of the extension, whose settings carry the drafts of a conversation from run to run."""
CARRIED = "drafts"
UNREADABLE = (AgentnbError, KeyError, TypeError, AttributeError)
"""Exceptions of drafts in a log that was changed, or that another version wrote: the conversation goes on without them."""
ELSEWHERE = "Another run continues the one that made it."
_STATUSES = {"open": "proposed", "approved": "approved", "declined": "rejected"}
"""The status of a plan, by that of a draft which is carried."""
_CARRIED_AS = {"edited": "open", **{status: word for word, status in _STATUSES.items()}}


def drafts_of(run: Run) -> dict[str, PlanRecord]:
    """Return the drafts by id, oldest first: of the runs that this one continues, then its own.

    An open one has the last words of the person since it was shown to them that answer no question. A clear no rejects it.
    """
    drafts = {name: _after_words(draft, run.prompt) for name, draft in _carried(run).items()}
    seen = {*drafts}
    for event in run.events:
        if isinstance(event, RoundStarted | QuestionAsked):  # words that come earlier were written without a look at it
            seen.update(drafts)
        elif (message := event.user_message) is not None:
            drafts.update({name: _after_words(drafts[name], message.text) for name in seen})
        elif isinstance(event, PlanProposed):
            record = plan_after(event, None)
            if record.id not in drafts and is_draft(record) and _is_readable(record):
                drafts[record.id] = record
        elif isinstance(event, PlanEvent) and event.plan_id in drafts:
            drafts[event.plan_id] = plan_after(event, drafts[event.plan_id])
        elif isinstance(event, RunRecovered) and event.consent == "refused":
            drafts = {name: _without_consent(draft, run) for name, draft in drafts.items()}
    return drafts


def carried_drafts(before: Run) -> list[dict[str, Any]]:
    """Return the drafts for a run that continues this one: of closed ones the ids, and of the last approved one the plan."""
    drafts = [*drafts_of(before).values()]
    if before.stop_reason == CONTINUED:  # by another run, which has them
        drafts = [replace(draft, status="rejected", reason=ELSEWHERE) if draft.is_open else draft for draft in drafts]
    last = [draft.id for draft in drafts if draft.status == "approved"][-1:]
    return [_as_carried(draft, whole=draft.is_open or draft.id in last) for draft in drafts]


def _as_carried(draft: PlanRecord, *, whole: bool) -> dict[str, Any]:
    plan = spec_of(draft).chat_data if whole else {"id": draft.id}
    extra = {"is_edited": bool(draft.edits), "reason": reason_of(draft)}
    return {"plan": plan, "status": _CARRIED_AS[draft.status], **{key: value for key, value in extra.items() if value}}


def reason_of(draft: PlanRecord) -> str:
    """Return why a draft was declined: the words of the person; empty for any other."""
    return (draft.reason or draft.words) if draft.status == "rejected" else ""


def is_draft(record: PlanRecord) -> bool:
    """Return whether a plan waits for the person."""
    return record.plan.get("execution_mode") == DRAFT


def spec_of(record: PlanRecord) -> Plan:
    """Return a plan of the log as a chat's plan. Raises `SettingsError` if it cannot be read."""
    data = data_of(record)
    written = plan_of_data(data)  # nearly always: it is read several times in each turn
    return Plan.read(data) if written is None else Plan.of(written)


def data_of(record: PlanRecord) -> dict[str, Any]:
    """Return a plan of the log as it was written, without what was asked for."""
    return {key: value for key, value in {**record.plan, "id": record.id}.items() if key in OF_CHAT_PLANS}


def _carried(run: Run) -> dict[str, PlanRecord]:
    """Return the drafts of earlier runs, from the settings of the extension."""
    settings = logged_extensions(run).get(EXTENSION, {}).get("settings", {})
    carried = settings.get(CARRIED, ()) if isinstance(settings, Mapping) else ()
    drafts: dict[str, PlanRecord] = {}
    for item in carried if isinstance(carried, list | tuple) else ():
        with suppress(*UNREADABLE):
            plan, status, reason = item["plan"], _STATUSES[item["status"]], str(item.get("reason", ""))
            draft = PlanRecord(plan["id"], plan, status, reason=reason, edits=int(item.get("is_edited") is True))
            is_whole = draft.is_open or "steps" in plan
            if isinstance(draft.id, str) and (not is_whole or _is_readable(draft)):
                drafts[draft.id] = draft
    return drafts


def _is_readable(draft: PlanRecord) -> bool:
    try:
        return bool(spec_of(draft))
    except UNREADABLE:
        return False


def _after_words(draft: PlanRecord, words: str) -> PlanRecord:
    """Return a draft after words of the person."""
    is_declined = clear_word(words) == "no"
    return replace(draft, words=words, status="rejected" if is_declined else draft.status) if draft.is_open else draft


def _without_consent(draft: PlanRecord, run: Run) -> PlanRecord:
    """Return a draft of a log whose approvals and words do not count: it is asked about again unless it has run."""
    if draft.status == "rejected":
        return draft
    step = run.step_records.get(draft.id)
    has_run = draft.status == "approved" and step is not None and step.status != "running"
    return replace(draft, words="", status=draft.status if has_run else "edited" if draft.edits else "proposed")
