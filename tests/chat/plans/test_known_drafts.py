"""Drafts of a conversation, from events and from carried drafts."""

from __future__ import annotations

from typing import Any

import pytest
from draft_turns import drafting
from plan_turns import step
from run_builder import Fact, run_of

from agentnb import Agent, Plan, Plans, Run
from agentnb.agent.extension import logged_extensions
from agentnb.chat.plans.draft_question import draft_question
from agentnb.chat.plans.known_drafts import CARRIED, ELSEWHERE, EXTENSION, carried_drafts, drafts_of, reason_of
from agentnb.chat.plans.plan_execution import is_approved
from agentnb.chat.plans.plans_extension import plans_again, plans_of
from agentnb.core.log.events import CommandReceived, QuestionAsked, RoundStarted, RunFinished, RunRecovered
from agentnb.core.log.work_events import PlanApproved, PlanEdited, PlanProposed, PlanRejected, StepFinished, StepStarted
from agentnb.core.run.approvals import CONTINUED
from agentnb.errors import SettingsError
from agentnb.models.scripted import ScriptedModel

PLAN = {"id": "plan-1", "steps": [step(1, "brest")], "reasoning": "It needs both."}
OTHER = {**PLAN, "id": "plan-2", "steps": [step(1, "cork")]}


def proposed(plan: dict[str, Any] = PLAN, mode: str = "draft_only") -> Fact:
    return PlanProposed, {"plan_id": plan["id"], "plan": {**plan, "execution_mode": mode}}


def said(text: str = "Go ahead", command: str = "say") -> Fact:
    return CommandReceived, {"command": command, "text": text}


def approved(plan_id: str = "plan-1", words: str = "") -> Fact:
    return PlanApproved, {"plan_id": plan_id, "words": words}


SHOWN: Fact = RoundStarted, {"index": 1, "reason": "tool_results"}
ASKED: Fact = QuestionAsked, {"question": draft_question(Plan.read(PLAN), ())}
EDITED: Fact = PlanEdited, {"plan_id": "plan-1", "plan": {**PLAN, "steps": [step(1, "galway")]}}
DENIED: Fact = PlanRejected, {"plan_id": "plan-1", "reason": "too many"}
REFUSED: Fact = RunRecovered, {"schema": 1, "consent": "refused"}
BEGUN: Fact = StepStarted, {"step": "plan-1"}


def past(*facts: Fact, carried: Any = ()) -> Run:
    """Return a run of these events that continues one with these drafts."""
    settings = {"extensions": [{"name": EXTENSION, "settings": {CARRIED: carried}}]}
    return run_of(*facts, prompt="Yes, run it", settings=settings)


def test_message_applies_only_to_drafts_visible_when_written(subtests: pytest.Subtests) -> None:
    cases: dict[str, tuple[list[Any], str]] = {
        "before the draft": ([SHOWN, said(), proposed()], ""),
        "in the round that made it": ([proposed(), said()], ""),
        "in the next round": ([proposed(), SHOWN, said()], "Go ahead"),
        "while it is asked about": ([proposed(), ASKED, said()], "Go ahead"),
        "the last ones": ([proposed(), SHOWN, said("Wait"), said()], "Go ahead"),
        "followed by a command": ([proposed(), SHOWN, said(), said("", "pause")], "Go ahead"),
    }
    for name, (events, words) in cases.items():
        with subtests.test(name):
            assert drafts_of(past(*events))["plan-1"].words == words
    carried = [{"plan": PLAN, "status": "open"}]
    (draft,) = drafts_of(past(proposed(OTHER, "auto_execute"), carried=carried)).values()
    assert draft.words == "Yes, run it"  # the message that continues the conversation


def test_draft_state_follows_its_last_event() -> None:
    assert drafts_of(past(proposed(mode="auto_execute"))) == {}
    edited = drafts_of(past(proposed(), EDITED))["plan-1"]
    assert (edited.is_open, edited.edits, edited.plan["steps"][0]["args"]) == (True, 1, {"station": "galway"})
    denied = drafts_of(past(proposed(), DENIED))["plan-1"]
    assert (denied.status, reason_of(denied)) == ("rejected", "too many")
    ran = drafts_of(past(proposed(), SHOWN, said("Wait"), approved(words="Go ahead")))["plan-1"]
    assert (ran.status, ran.words, reason_of(ran)) == ("approved", "Go ahead", "")
    edited_run = past(proposed(), carried=[{"plan": EDITED[1]["plan"], "status": "open", "is_edited": True}])
    assert drafts_of(edited_run)["plan-1"].edits == 1


def test_approval_requires_consent_but_executed_drafts_never_rerun(subtests: pytest.Subtests) -> None:
    cases: dict[str, tuple[list[Fact], str]] = {
        "approved": ([approved(words="Go")], "proposed"),
        "it ran when its process died": ([approved(words="Go"), BEGUN], "proposed"),
        "it has run": ([approved(words="Go"), BEGUN, (StepFinished, {"step": "plan-1"})], "approved"),
        "declined": ([DENIED], "rejected"),
        "in words": ([SHOWN, said()], "proposed"),
        "in words, with a step of its id": ([SHOWN, said(), BEGUN, (StepFinished, {"step": "plan-1"})], "proposed"),
        "edited": ([EDITED, approved()], "edited"),
    }
    for name, (events, status) in cases.items():
        with subtests.test(name):
            draft = drafts_of(past(proposed(), *events, REFUSED))["plan-1"]
            assert (draft.status, draft.is_open and draft.words) == (status, "" if draft.is_open else False)


def test_run_carries_open_drafts_last_approved_plan_and_other_ids() -> None:
    third = {**PLAN, "id": "plan-3"}
    run = past(proposed(), approved(), proposed(OTHER), approved("plan-2"), proposed(third))
    first, second, last = carried_drafts(run)
    assert first == {"plan": {"id": "plan-1"}, "status": "approved"}
    assert (second["plan"]["id"], second["status"], len(second["plan"]["steps"])) == ("plan-2", "approved", 1)
    assert (last["plan"]["id"], last["status"], len(last["plan"]["steps"])) == ("plan-3", "open", 1)
    again = drafts_of(past(carried=[first, second, last]))
    assert [one.status for one in again.values()] == ["approved", "approved", "proposed"]
    (denied,) = carried_drafts(past(proposed(), EDITED, DENIED))
    assert denied == {"plan": {"id": "plan-1"}, "status": "declined", "is_edited": True, "reason": "too many"}
    assert carried_drafts(past(carried=[denied])) == [denied]


def test_open_drafts_of_a_continued_run_are_closed() -> None:
    run = past(proposed(), approved(), proposed(OTHER), (RunFinished, {"status": "completed", "stop_reason": CONTINUED}))
    found = [(one["status"], one.get("reason", "")) for one in carried_drafts(run)]
    assert found == [("approved", ""), ("declined", ELSEWHERE)]


def test_extension_is_rebuilt_with_logged_settings_without_drafts() -> None:
    given = {"max_tool_calls": 7, "max_seconds": 60, "review_failed": "reject"}
    drafted = drafting(plans=given).run_sync("Draft it")
    continued = drafting(plans=given).run_sync("And now?", continue_from=drafted)
    assert CARRIED in logged_extensions(continued)["plans"]["settings"]
    for run in (drafted, continued):
        (made,) = plans_again(run)
        assert dict(made.settings) == given and made.name == "plans"
    assert plans_again(Agent(ScriptedModel(["Hello."])).run_sync("Hello")) == ()
    for name in ("model", "reviewer"):
        settings = Plans(**{name: ScriptedModel([], name="scripted:other")}).settings
        with pytest.raises(SettingsError, match=f"{name}=scripted:other"):
            plans_of(settings)


def test_approval_applies_only_to_its_plan_and_trusted_call() -> None:
    approval: Fact = PlanApproved, {"plan_id": "plan-1", "call_id": "c1"}
    trusted: Fact = RunRecovered, {"schema": 1, "consent": "taken"}
    cases: list[tuple[list[Fact], str, str | None, bool]] = [
        ([approval], "plan-1", None, True),
        ([approval], "plan-1", "c1", True),
        ([approval], "plan-1", "c2", False),
        ([approval], "plan-2", None, False),
        ([approval, trusted], "plan-1", "c1", True),
        ([approval, REFUSED], "plan-1", "c1", False),
        ([REFUSED, approval], "plan-1", None, True),
        ([], "plan-1", None, False),
    ]
    for events, plan_id, call_id, counts in cases:
        assert is_approved(past(*events), plan_id, call_id) is counts
