"""Plans in chat form: tool calls, agents and replies in order of their dependencies."""

from __future__ import annotations

import pytest
from asserted_sentences import Snapshot
from plan_examples import PLANS, tables_compare, tides_fetch

from agentnb import Plan, ToolCall
from agentnb.core.log.work_events import ModelCalled, StepSkipped
from agentnb.core.request import ToolSpec
from agentnb.errors import WorkflowError
from agentnb.models.scripted import ScriptedModel

TOOLS = [tides_fetch, tables_compare]


@pytest.mark.req("R3.23", "KX.4")
def test_chat_plan_step_becomes_a_tool_call_agent_or_reply() -> None:
    model = ScriptedModel([ToolCall("tables_compare", {"left": [1], "right": [2]}), "At ten.", "Both are high at ten."])
    run = Plan.read(PLANS / "plan-chat.json").run_sync(tools=TOOLS, model=model, show=False)
    assert (run.status, run.text) == ("completed", "Both are high at ten.")
    assert [result["name"] for result in run.variables["results"]] == [
        "tides_fetch",
        "tides_fetch",
        "tables_compare",
        "synthesis",
    ]
    agent, _, reply = model.requests
    assert {tool.name for tool in agent.tools} >= {"tables_compare", "tides_fetch"}
    assert "brest" in agent.messages[0].text and "cork" in agent.messages[0].text, "the dependencies of the step"
    assert reply.messages[0].text.endswith('3: "At ten."') and reply.tools == ()
    assert [event.operation for event in run.events if isinstance(event, ModelCalled)] == ["executor"]


@pytest.mark.req("R3.23")
def test_failed_step_skips_its_dependents_while_other_steps_run() -> None:
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
    assert [bool(result["error"]) for result in run.variables["results"]] == [True, True, False]
    assert [event.step for event in run.events if isinstance(event, StepSkipped)] == ["plan/1"]
    in_a_row = Plan.read({"steps": [steps[0], {**steps[2], "stepNumber": 2, "dependsOn": [1]}]})
    with pytest.raises(WorkflowError) as raised:
        in_a_row.run_sync(tools=TOOLS, show=False)
    assert raised.value.run is not None
    assert [result["error"] for result in raised.value.run.variables["results"]][1] == "skipped: it depends on step 1"
    with pytest.raises(WorkflowError, match="needs a model"):
        Plan.read(PLANS / "plan-chat.json").run_sync(tools=TOOLS, show=False)


@pytest.mark.req("R3.23")
def test_step_accepts_a_tool_group(snapshot: Snapshot) -> None:
    step = {"stepNumber": 1, "type": "action", "description": "List the folder.", "tools": ["shell"]}
    model = ScriptedModel(["One file."])
    run = Plan.read({"steps": [step]}).run_sync(tools=["shell", tides_fetch], model=model, show=False)
    assert {"bash"} <= {tool.name for tool in model.requests[0].tools} and run.text == "One file."
    assert {spec.name for spec in model.requests[0].tools}.isdisjoint({"tides_fetch"})
    own = Plan.read({"steps": [{**step, "tools": ["web"]}]})
    assert own.validate([ToolSpec("web", "", {})]) == [] == Plan.read({"steps": [step]}).validate([])
    called = Plan.read({"steps": [{"type": "tool", "name": "shell"}]})
    assert [str(problem) for problem in called.validate(["shell"])] == snapshot


def _fetching(station: str) -> dict[str, object]:
    return {"tools": ["tides_fetch"], "args": {"station": station}}
