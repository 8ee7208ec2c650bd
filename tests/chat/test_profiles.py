"""Profile models, and callers that override them."""

from __future__ import annotations

from typing import Any

import pytest
from scripted_runs import bare

from agentnb import Agent, ContextType, Workflow
from agentnb.experiments.planning.variants import Variant, read_variants
from agentnb.models import ScriptedModel

STEPS = "agents: {writer: {}}\nworkflow: [{type: agent, name: writer}]\n"


def scripted(name: str) -> ScriptedModel:
    return ScriptedModel([f"{name} said it."], name=f"scripted:{name}")


def deep_agent() -> Agent:
    """Return an agent in a context whose profile has a model."""
    agent = bare(scripted("shallow"), name="writer")
    return ContextType("station", profile="quality").apply(agent, "Brest", models={"quality": scripted("deep")})


@pytest.mark.req("R3.11")
def test_experiment_models_and_workflow_replies_override_the_profile(subtests: pytest.Subtests) -> None:
    other, problems = scripted("other"), list[str]()
    changed: dict[str, Any] = {"own": {}, "changed": {"model": other}}
    variants = {one.name: one for one in read_variants(changed, deep_agent(), [], problems)}
    cases: dict[str, tuple[Variant, Any, str]] = {
        "its own": (variants["own"], None, "scripted:deep"),
        "of the experiment": (variants["own"], other, "scripted:other"),
        "of a variant": (variants["changed"], None, "scripted:other"),
    }
    for name, (variant, model, expected) in cases.items():
        with subtests.test(name):
            agent = variant.agent(model, seed=0)
            assert (agent.model_name, agent.context and agent.context.name) == (expected, "station")
    assert not problems
    flow = Workflow.from_yaml(STEPS, agents={"writer": deep_agent()})
    assert flow.run_sync("go").text == "deep said it."
    assert flow.orchestration(replies={"writer": ["As the script says."]}).run_sync("go").text == "As the script says."
