"""A chat's plan: calls, agents and replies, each after what it depends on."""

from __future__ import annotations

import pytest
from plan_examples import PLANS, tables_compare, tides_fetch

from agentnb import Plan, ToolCall
from agentnb.core.log.work_events import ModelCalled, StepSkipped
from agentnb.errors import WorkflowError
from agentnb.models.scripted import ScriptedModel

TOOLS = [tides_fetch, tables_compare]


@pytest.mark.req("R3.23", "KX.4")
def test_each_step_is_a_call_or_an_agent_with_its_tools_or_one_reply() -> None:
    model = ScriptedModel([ToolCall("tables_compare", {"left": [1], "right": [2]}), "At ten.", "Both are high at ten."])
    run = Plan.read(PLANS / "plan-chat.json").run_sync(tools=TOOLS, model=model, show=False)
    assert (run.status, run.text) == ("completed", "Both are high at ten.")
    assert [one["name"] for one in run.variables["results"]] == ["tides_fetch", "tides_fetch", "tables_compare", "synthesis"]
    agent, _, reply = model.requests
    assert {tool.name for tool in agent.tools} >= {"tables_compare", "tides_fetch"}
    assert "brest" in agent.messages[0].text and "cork" in agent.messages[0].text, "what it depends on"
    assert reply.messages[0].text.endswith('3: "At ten."') and reply.tools == ()
    assert [one.operation for one in run.events if isinstance(one, ModelCalled)] == ["executor"]


@pytest.mark.req("R3.23")
def test_what_depends_on_a_failed_step_is_skipped_and_the_rest_goes_on() -> None:
    steps = [
        {"stepNumber": 1, "type": "research", "description": "a", **_fetching("vigo")},
        {"stepNumber": 2, "type": "analysis", "description": "b", "tools": [], "dependsOn": [1]},
        {"stepNumber": 3, "type": "research", "description": "c", **_fetching("cork")},
    ]
    plan = Plan.read({"reasoning": "to see one fail", "steps": steps})
    with pytest.raises(WorkflowError, match="no such station") as raised:
        plan.run_sync(tools=TOOLS, model=ScriptedModel([]), show=False)
    run = raised.value.run
    assert run is not None
    assert [bool(one["error"]) for one in run.variables["results"]] == [True, True, False]
    assert [one.step for one in run.events if isinstance(one, StepSkipped)] == ["plan/1"]
    with pytest.raises(WorkflowError, match="needs a model"):
        Plan.read(PLANS / "plan-chat.json").run_sync(tools=TOOLS, show=False)


def _fetching(station: str) -> dict[str, object]:
    return {"tools": ["tides_fetch"], "args": {"station": station}}
