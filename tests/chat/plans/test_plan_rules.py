"""Plan rules of a context, and the requested mode of a call."""

from __future__ import annotations

from typing import Any

import pytest
from chat_examples import loaded

from agentnb import ContextType
from agentnb.chat.plans.plan_rules import broken_rules, hints
from agentnb.chat.plans.planning import PlanRequest, read_request
from agentnb.workflow.plan import Plan

CREATE = ContextType.named("project_create").plan_rules


@pytest.mark.req("R3.25")
def test_plan_rule_violations_are_reported_as_documented(subtests: pytest.Subtests) -> None:
    cases: list[dict[str, Any]] = loaded("plan-rules.yaml")
    for case in cases:
        with subtests.test(str(case["steps"])):
            steps = [
                {"stepNumber": number, "type": "action", "description": "x", "tools": tools}
                for number, tools in enumerate(case["steps"], 1)
            ]
            assert broken_rules(Plan.read({"steps": steps}), CREATE) == case["breaks"]
    assert broken_rules(Plan.read({"steps": []}), [{"hint": "Compare."}]) == []
    assert any("create_onto_project" in line for line in hints(CREATE)) and hints([{"hint": "Compare."}]) == ["Compare."]


@pytest.mark.req("R3.16", "K3.8")
def test_call_mode_is_explicit_or_from_the_old_flag(subtests: pytest.Subtests) -> None:
    for case in loaded("calls.json"):
        with subtests.test(case["case"]):
            asked = read_request(case["arguments"], "Compare both")
            if case["case"] == "unknown mode":
                assert not isinstance(asked, PlanRequest)
                continue
            assert isinstance(asked, PlanRequest)
            if case["arguments"].get("plan_id"):
                assert asked.plan_id == case["arguments"]["plan_id"]
            else:
                objective = case["arguments"]["objective"].strip() or "Compare both"
                assert (asked.mode, asked.objective) == (case["mode"], objective)


@pytest.mark.req("R3.17", "K3.8")
def test_intent_of_a_call_has_the_documented_fields() -> None:
    documented = loaded("intent.json")
    asked = read_request(
        {
            "objective": documented["objective"],
            "execution_mode": "draft_only",
            "requested_outputs": documented["requestedOutputs"],
            "priority_entities": documented["priorityEntities"],
        },
        "",
    )
    assert isinstance(asked, PlanRequest)
    assert asked.intent("project", "project-harbours", "run-31", "run-33") == documented
