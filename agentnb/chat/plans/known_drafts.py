"""Drafts of a conversation, with their status in this run and in the runs that it continues."""

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
"""Name of the extension whose settings carry a conversation's drafts from run to run."""
CARRIED = "drafts"
UNREADABLE = (AgentnbError, KeyError, TypeError, AttributeError)
"""Exceptions raised by drafts in a modified log or one from another version; the conversation continues without them."""
ELSEWHERE = "Another run has continued the run that made it."
_STATUSES = {"open": "proposed", "approved": "approved", "declined": "rejected"}
"""Plan status for each status of a carried draft."""
_CARRIED_AS = {"edited": "open", **{status: word for word, status in _STATUSES.items()}}


def drafts_of(run: Run) -> dict[str, PlanRecord]:
    """Return the drafts by id, oldest first: those of continued runs, then those of this run.

    An open draft carries the person's latest message since it was shown, excluding answers to questions. A clear no
    rejects the draft.
    """
    drafts = {name: _after_words(draft, run.prompt) for name, draft in _read_carried(run).items()}
    seen = {*drafts}
    for event in run.events:
        if isinstance(event, RoundStarted | QuestionAsked):  # earlier messages were written before the draft was shown
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
    """Return the drafts for a run that continues this one: open drafts and the latest approved one in full, others
    only by id.
    """
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
    """Return the reason why a draft was declined, such as the person's message; empty for other drafts."""
    return (draft.reason or draft.words) if draft.status == "rejected" else ""


def is_draft(record: PlanRecord) -> bool:
    """True if a plan is a draft on which the person decides."""
    return record.plan.get("execution_mode") == DRAFT


def spec_of(record: PlanRecord) -> Plan:
    """Return a logged plan as a chat plan. Raises `SettingsError` if it is unreadable."""
    data = data_of(record)
    written = plan_of_data(data)  # the fast path, because it is read several times in each turn
    return Plan.read(data) if written is None else Plan.of(written)


def data_of(record: PlanRecord) -> dict[str, Any]:
    """Return a logged plan as written, without the fields that come from its request."""
    return {key: value for key, value in {**record.plan, "id": record.id}.items() if key in OF_CHAT_PLANS}


def _read_carried(run: Run) -> dict[str, PlanRecord]:
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
    """Update a draft for a message from the person."""
    is_declined = clear_word(words) == "no"
    return replace(draft, words=words, status="rejected" if is_declined else draft.status) if draft.is_open else draft


def _without_consent(draft: PlanRecord, run: Run) -> PlanRecord:
    """Reset a draft whose logged approvals and messages do not count: unless it has run, the person is asked again."""
    if draft.status == "rejected":
        return draft
    step = run.step_records.get(draft.id)
    has_run = draft.status == "approved" and step is not None and step.status != "running"
    return replace(draft, words="", status=draft.status if has_run else "edited" if draft.edits else "proposed")
