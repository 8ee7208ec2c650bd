"""What a workflow needs again when its run is resumed in another process: what its log keeps of it, and what it cannot keep."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from agentnb.advice import GiveAgent
from agentnb.agent.agent import Agent
from agentnb.agent.settings import MODEL_FROM, PERSON
from agentnb.detect.run import Run
from agentnb.errors import SettingsError, near
from agentnb.guidance import GuidanceSet
from agentnb.models.model import Model
from agentnb.models.registry import person_chose_destination
from agentnb.runtime.runs.gate_names import name_of_gate
from agentnb.workflow.files.declared_files import with_files
from agentnb.workflow.files.logged_workflow import logged_workflow
from agentnb.workflow.form.spec import AgentStep, WorkflowSpec
from agentnb.workflow.form.step_tree import walk_all
from agentnb.workflow.running.agents import Replies


def check_agents_again(run: Run, given: Mapping[str, Agent]) -> tuple[str, ...]:
    """Return the names of the agents that are given; raise `SettingsError` if one that the run had from Python is missing."""
    logged = logged_workflow(run.settings)
    for declared in () if logged is None else with_files(logged):
        if not isinstance(declared, WorkflowSpec):
            continue
        for step in walk_all(declared.steps):
            if isinstance(step, AgentStep) and step.agent not in declared.agents and step.agent not in given:
                what = f"Run {run.id} worked with the agent {step.agent}, which was an object in Python"
                advice = GiveAgent(step.agent, resumes=True, lead="Give it again")
                raise SettingsError(what, (*near(step.agent, given), advice))
    return tuple(given)


def needed_again(
    model: str | Model | None, agent_settings: Mapping[str, Any] | None, replies: Replies | None
) -> dict[str, Any]:
    """Return what the log holds of the model, the agents' settings and scripts, so that the run can be resumed with them."""
    given = dict(agent_settings or {})
    gates = [name_of_gate(gate) for gate in given.pop("gates", None) or ()]
    name = str(model) if isinstance(model, str) else None if model is None else model.name
    named = {key: value.name if isinstance(value, GuidanceSet) else value for key, value in given.items()}
    plain = {key: value for key, value in named.items() if value is None or isinstance(value, str | int | float)}
    found = {"model": name, "gates": gates, "agent_settings": plain, "replies": sorted(replies or ())}
    if person_chose_destination(model):
        found[MODEL_FROM] = PERSON
    return {key: value for key, value in found.items() if value}
