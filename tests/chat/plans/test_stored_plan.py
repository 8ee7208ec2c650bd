"""The documented form of a stored plan, from the log of its run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from chat_examples import loaded
from draft_turns import answered, drafting, steps_of, waiting
from plan_turns import APPROVED, agent, call, plan, result_of, step
from waiting import wait_until

from agentnb import Plan, Store, validate_plan
from agentnb.chat.plans.plan_outcome import stored_plan
from agentnb.errors import SettingsError

DOCUMENTED = loaded("draft.json")
FREE = ("id", "run_id", "conversation", "created_at")


def compared(found: dict[str, Any], documented: dict[str, Any]) -> None:
    """Compare a stored plan with the documented one, except ids and times."""
    assert list(found) == list(documented)
    assert {key: one for key, one in found.items() if key not in FREE} == {
        key: one for key, one in documented.items() if key not in FREE
    }


@pytest.mark.req("R3.19", "R3.27", "R3.40")
def test_draft_is_stored_and_sent_as_documented() -> None:
    asked = call(
        execution_mode="draft_only",
        requested_outputs=DOCUMENTED["requested_outputs"],
        priority_entities=DOCUMENTED["priority_entities"],
    )
    steps = [
        {key: one for key, one in step.items() if key not in ("status", "result", "error")} for step in DOCUMENTED["steps"]
    ]
    reply = plan(*steps).replace("The comparison needs both.", DOCUMENTED["reasoning"])
    live = agent(asked, reply, "Shall it run?").start("Draft it")
    wait_until(lambda: live.run.waiting)
    run = live.run
    compared(stored_plan(run, run.waiting[0].call_id), DOCUMENTED)
    compared(result_of(run)["plan"], DOCUMENTED)
    assert result_of(run)["plan"]["run_id"] == run.id and result_of(run)["plan"]["conversation"] == run.conversation
    live.stop()


@pytest.mark.req("R3.20", "R3.42", "R3.44")
def test_outcome_of_a_plan_and_its_steps_is_stored(tmp_path: Path) -> None:
    failing = plan(step(1, "brest"), step(2, "vigo", 1), step(3, "cork", 2))
    replies = [call(execution_mode="agent_review"), failing, APPROVED, "Vigo is unknown."]
    run = agent(*replies).run_sync("Go", store=Store(tmp_path))
    stored = stored_plan(run, next(iter(run.plans)))
    assert (stored["status"], stored["execution_mode"], stored["review"]["verdict"]) == ("failed", "agent_review", "approved")
    assert [step["status"] for step in stored["steps"]] == ["completed", "failed", "skipped"]
    assert stored["steps"][1]["error"] and stored["started_at"] and stored["completed_at"].endswith("Z")
    assert run.text == "Vigo is unknown."
    edited = answered(waiting(drafting("Done.")), steps_of(step(1, "cork")), "approve")
    again = stored_plan(edited, next(iter(edited.plans)))
    assert (again["edits"], again["status"], len(again["steps"])) == (1, "completed", 1)
    with pytest.raises(SettingsError, match="plan-70"):
        stored_plan(edited, "plan-70")


@pytest.mark.req("R3.24")
def test_steps_are_numbered_and_depend_on_earlier_ones(subtests: pytest.Subtests) -> None:
    cases: dict[str, list[dict[str, Any]]] = {
        "no step": [],
        "one number twice": [step(1), step(1)],
        "an unknown step": [step(1, "", 7)],
        "a later step": [step(1, "", 2), step(2)],
        "itself": [step(1, "", 1)],
    }
    for name, steps in cases.items():
        with subtests.test(name):
            assert validate_plan({"steps": steps}) or not steps
    assert validate_plan(Plan.read(plan(step(1), step(2, "", 1)))) == []
