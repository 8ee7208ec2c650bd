"""Runs based on other runs: resumed in another process, or started at a later step with the outputs of earlier steps."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from agentnb.advice import GiveAgent
from agentnb.agent.agent import Agent
from agentnb.agent.derived_settings import MODEL_FROM, PERSON
from agentnb.core.log import work_events as w
from agentnb.detect.run import Run
from agentnb.errors import SettingsError, suggest_names
from agentnb.guidance import GuidanceSet
from agentnb.models.model import Model
from agentnb.models.registry import person_chose_destination
from agentnb.runtime.runs.gate_names import name_of_gate
from agentnb.workflow.files.declared_files import WorkflowDefinition, with_files
from agentnb.workflow.files.logged_workflow import logged_workflow
from agentnb.workflow.form.step_tree import walk_all, with_branches
from agentnb.workflow.form.workflow_spec import AgentStep, WorkflowSpec
from agentnb.workflow.running.agents import Replies
from agentnb.workflow.tasks.task_spec import TaskFile

KEPT = w.StepStarted | w.StepEnd


def check_agents_again(run: Run, agents: Mapping[str, Agent]) -> tuple[str, ...]:
    """Return the names of the agents passed in. Raises `SettingsError` if a Python agent that the run used is missing."""
    logged = logged_workflow(run.settings)
    for declared in () if logged is None else with_files(logged):
        if not isinstance(declared, WorkflowSpec):
            continue
        for step in walk_all(declared.steps):
            if isinstance(step, AgentStep) and step.agent not in declared.agents and step.agent not in agents:
                problem = f"Run {run.id} used the agent {step.agent}, a Python object"
                advice = GiveAgent(step.agent, resumes=True, lead="Pass it again")
                raise SettingsError(problem, (*suggest_names(step.agent, agents), advice))
    return tuple(agents)


def needed_again(
    model: str | Model | None, agent_settings: Mapping[str, Any] | None, replies: Replies | None
) -> dict[str, Any]:
    """Return the settings to log about the model, agents and scripts that are needed to resume the run."""
    settings = dict(agent_settings or {})
    gates = [name_of_gate(gate) for gate in settings.pop("gates", None) or ()]
    name = str(model) if isinstance(model, str) else None if model is None else model.name
    named = {key: value.name if isinstance(value, GuidanceSet) else value for key, value in settings.items()}
    plain = {key: value for key, value in named.items() if value is None or isinstance(value, str | int | float)}
    logged = {"model": name, "gates": gates, "agent_settings": plain, "replies": sorted(replies or ())}
    if person_chose_destination(model):
        logged[MODEL_FROM] = PERSON
    return {key: value for key, value in logged.items() if value}


def earlier_events(declared: WorkflowDefinition, first: str | None, of: Run | None) -> tuple[w.StepStarted | Any, ...]:
    """Return the events of the run ``of`` with the outputs of the steps before ``first``; empty if ``first`` is None."""
    if first is None:
        return ()
    if isinstance(declared, TaskFile):
        raise SettingsError("rerun_from does not apply to task files", "Pass its variables: inputs={...}")
    ids = [step.id for step in declared.steps]
    if first not in ids:
        raise SettingsError(f"There is no step {first!r} in the top-level list", suggest_names(first, ids))
    if of is None:
        raise SettingsError(f"rerun_from={first!r} needs the run with the earlier outputs", "Pass it: of=run")
    if of.kind == "agent":
        raise SettingsError(f"Run {of.id} is an agent's run and has no steps", "Pass a run of this workflow: of=run")
    before = declared.steps[: ids.index(first)]
    missing = [step.id for step in before if step.kind not in ("goto", "condition") and step.id not in of.steps]
    if missing and first not in of.step_records:  # the run may have skipped some on its way to ``first``
        raise SettingsError(f"Run {of.id} has no output for {missing[0]}", f"Start there: rerun_from={missing[0]!r}")
    roots = {step.id for parent in before for step in with_branches(parent)}
    return tuple([event for event in of.events if isinstance(event, KEPT) and event.step.partition("/")[0] in roots])


def rerun_of(run: Run) -> tuple[str | None, tuple[Any, ...]]:
    """Return the first step of a rerun and the events copied from the earlier run; (None, ()) for a run that starts at the
    beginning.
    """
    rerun = run.settings.get("rerun")
    if not isinstance(rerun, dict):
        return None, ()
    earlier = tuple([event for event in run.events if isinstance(event, KEPT)][: rerun["events"]])
    if len(earlier) < rerun["events"]:
        hint = f"Start it again: wf.run(rerun_from={rerun['step']!r}, of=run)"
        raise SettingsError(f"The process of run {run.id} died before it copied the outputs of run {rerun['of']}", hint)
    return rerun["step"], earlier
