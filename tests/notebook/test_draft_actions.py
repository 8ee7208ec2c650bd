"""Clicks in the table of a draft change the waiting draft or explain why not."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from waiting import PATIENCE, wait_until

from agentnb import Agent, ContextType, Plans, ToolCall
from agentnb.errors import SettingsError
from agentnb.models.scripted import ScriptedModel
from agentnb.notebook.card.actions import ACTIONS
from agentnb.runtime.host.live_run import LiveRun
from agentnb.runtime.questions.question_forms import FieldsRefused


async def tides_fetch(station: str) -> str:
    """Fetch the tide table of a station."""
    return f"{station}: 05:10"


def step(number: int, station: str, *depends: int) -> dict[str, Any]:
    about = {"stepNumber": number, "type": "research", "description": f"Fetch {station}", "dependsOn": [*depends]}
    return {**about, "tools": ["tides_fetch"], "args": {"station": station}, "executorRequired": False}


PLAN = json.dumps({"steps": [step(1, "brest"), step(2, "cork"), step(3, "galway", 2)]})
DRAFT = ToolCall("agent_create_plan", {"objective": "Compare the tides", "execution_mode": "draft_only"}, "call_1")
ASK = {"tides_fetch": "ask"}
RULE = {"tools": ["tides_fetch"], "required": True, "most": 3}


@pytest.fixture
def live() -> Iterator[LiveRun]:
    """Return a run with a waiting draft, in a context with at most three calls; a rule asks about each."""
    model = ScriptedModel([DRAFT, PLAN, "Shall it run?", "They are high."])
    context = ContextType("harbours", intent="Compare tides.", plan_rules=[RULE])
    agent = Agent(model, tools=[tides_fetch], extensions=[Plans()], todos=True, instructions=False, permissions=ASK)
    started = context.apply(agent).start("Draft it")
    wait_until(lambda: started.run.waiting or started.done)
    yield started
    started.stop()
    started.result(PATIENCE)


def do(live: LiveRun, action: str, **message: Any) -> list[str]:
    """Carry out an action on the draft and return its changed steps."""
    plan_id, asked = next(iter(live.run.plans)), live.run.waiting[0]
    ACTIONS[action](live, {"key": plan_id, **message})
    wait_until(lambda: live.run.waiting and live.run.waiting[0] != asked)
    return [step["description"] for step in live.run.plans[plan_id].plan["steps"]]


def test_steps_of_a_waiting_draft_can_be_edited(live: LiveRun) -> None:
    assert do(live, "draft", op="down", place=0) == ["Fetch cork", "Fetch brest", "Fetch galway"]
    assert do(live, "draft", op="up", place=2) == ["Fetch cork", "Fetch galway", "Fetch brest"]
    assert do(live, "draft", op="remove", place=1) == ["Fetch cork", "Fetch brest"]
    assert do(live, "draft", op="add", place=2) == ["Fetch cork", "Fetch brest", "New step"]
    assert do(live, "step", place=2, fields=[["0", "Compare them"]]) == ["Fetch cork", "Fetch brest", "Compare them"]
    live.answer("approve")
    plan_id = next(iter(live.run.plans))
    for question_id in (f"{plan_id}/q1", f"{plan_id}/q2"):
        wait_until(lambda: any(one.id == question_id for one in live.run.waiting) or live.done)  # noqa: B023  # called at once
        with pytest.raises(SettingsError, match="no longer waiting"):  # the question about its call is not a draft
            ACTIONS["draft"](live, {"key": plan_id, "op": "add", "place": 0})
        live.answer("approve", question_id)
    run = live.result(PATIENCE)
    (record,) = run.step_records.values()
    assert [one["description"] for one in record.output["plan"]["steps"]] == ["Fetch cork", "Fetch brest", "Compare them"]


def test_invalid_draft_edit_is_reported_and_changes_nothing(live: LiveRun, subtests: pytest.Subtests) -> None:
    plan_id, before = next(iter(live.run.plans)), live.run.waiting
    four = [["0", "Fetch more"], ["1", '["agent_create_plan"]']]
    cases: dict[str, tuple[str, dict[str, Any], type[Exception], str]] = {
        "before what it depends on": (
            "draft",
            {"op": "up", "place": 2},
            SettingsError,
            r"^Invalid edit: step 3 depends on step 2, .*\. The plan is unchanged",
        ),
        "no description": ("step", {"place": 0, "fields": [["0", ""]]}, FieldsRefused, "shorter"),
        "a tool that makes plans": ("step", {"place": 0, "fields": four}, FieldsRefused, "Choose"),
        "a draft that does not wait": (
            "draft",
            {"op": "add", "place": 3, "key": "plan-70"},
            SettingsError,
            "no longer waiting",
        ),
    }
    for name, (action, message, error, expected) in cases.items():
        with subtests.test(name), pytest.raises(error, match=expected):
            ACTIONS[action](live, {"key": plan_id, **message})
    do(live, "draft", op="add", place=3)
    with pytest.raises(SettingsError, match="tides_fetch"):
        ACTIONS["step"](live, {"key": plan_id, "place": 3, "fields": [["1", '["tides_fetch"]']]})
    assert len(before) == 1 and len(live.run.plans[plan_id].plan["steps"]) == 4
