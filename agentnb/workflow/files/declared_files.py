"""Helpers for workflows and task files including their nested files: models, tools, drawings."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from typing import TypeAlias

from agentnb.models.destinations.destination import FileModelName
from agentnb.workflow.form.step_tree import names_of_tool_steps, walk_all
from agentnb.workflow.form.workflow_spec import WorkflowSpec
from agentnb.workflow.graph.drawing import Drawing, draw
from agentnb.workflow.graph.of_workflow import compile_workflow
from agentnb.workflow.tasks.task_spec import TaskFile

WorkflowDefinition: TypeAlias = WorkflowSpec | TaskFile


def drawing_of(declared: WorkflowDefinition) -> Drawing:
    """Return the drawing of a workflow or task file."""
    return draw(declared.graph if isinstance(declared, TaskFile) else compile_workflow(declared))


def with_files(declared: WorkflowDefinition) -> list[WorkflowDefinition]:
    """Return the workflow and the nested files that were read with it, at any depth, each only once."""
    files: dict[int, WorkflowDefinition] = {}
    pending = [declared]
    while pending:
        file = pending.pop()
        if id(file) not in files:
            files[id(file)] = file
            pending += [] if isinstance(file, TaskFile) else [*file.nested.values()][::-1]
    return [*files.values()]


def model_names(declared: WorkflowDefinition, replaced: Collection[str] = ()) -> Iterator[str]:
    """Yield the models of all agents declared in a workflow and its files, except for agents ``replaced`` from Python."""
    for spec in with_files(declared):
        agents = spec.agents if isinstance(spec, WorkflowSpec) else {}  # a task file declares no agents
        for name, agent in agents.items():
            if agent.model is not None and not agent.replies and name not in replaced:
                yield agent.model


def mark_typed(spec: WorkflowSpec) -> WorkflowSpec:
    """Return the workflow with its agents' models marked as typed by the person; models in nested files still count as a
    file's.
    """
    models = {name: str(agent.model) for name, agent in spec.agents.items() if agent.model is not None}
    return replace(_with_models(spec, models), is_typed=True)


def without_folders(declared: WorkflowDefinition) -> WorkflowDefinition:
    """Return a workflow from an untrusted log without the folders of its models, since its file paths are unverified."""
    if isinstance(declared, TaskFile):
        return declared
    models = {name: FileModelName(agent.model) for name, agent in declared.agents.items() if agent.model is not None}
    nested = {path: without_folders(file) for path, file in declared.nested.items()}
    return replace(_with_models(declared, models), nested=nested)


def _with_models(spec: WorkflowSpec, models: Mapping[str, str]) -> WorkflowSpec:
    """Return the workflow with these models for its agents."""
    return replace(spec, agents={name: replace(agent, model=models.get(name)) for name, agent in spec.agents.items()})


def tool_names(declared: WorkflowDefinition) -> tuple[str, ...]:
    """Return the unique tool names of a workflow or task file."""
    if isinstance(declared, TaskFile):
        return declared.tool_names
    of_agents = (name for agent in declared.agents.values() for name in agent.tools)
    return tuple(dict.fromkeys([*names_of_tool_steps(walk_all(declared.steps)), *of_agents]))


def tool_names_of_files(declared: WorkflowDefinition) -> tuple[str, ...]:
    """Return the unique tool names of a workflow and its files."""
    return tuple(dict.fromkeys(name for file in with_files(declared) for name in tool_names(file)))


def actions_of(declared: WorkflowDefinition) -> frozenset[str]:
    """Return the actions, as written, of a task file or of the task files run by a workflow."""
    return frozenset(name for file in with_files(declared) if isinstance(file, TaskFile) for name in file.actions)
