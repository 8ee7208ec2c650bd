"""What was declared, in either form, with the files that it runs, and the models and tools that they name."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from typing import TypeAlias

from agentnb.models.destinations.destination import FileModelName
from agentnb.workflow.form.spec import WorkflowSpec
from agentnb.workflow.form.step_tree import names_of_tool_steps, walk_all
from agentnb.workflow.graph.drawing import Drawing, drawn
from agentnb.workflow.graph.of_workflow import compiled
from agentnb.workflow.tasks.spec import TaskFile

WorkflowDefinition: TypeAlias = WorkflowSpec | TaskFile


def drawing_of(declared: WorkflowDefinition) -> Drawing:
    """Return the drawing of a workflow or a task file."""
    return drawn(declared.graph if isinstance(declared, TaskFile) else compiled(declared))


def with_files(declared: WorkflowDefinition) -> list[WorkflowDefinition]:
    """Return the workflow and those of the files that it runs, at any depth, if they were read with it; each once."""
    files: dict[int, WorkflowDefinition] = {}
    pending = [declared]
    while pending:
        file = pending.pop()
        if id(file) not in files:
            files[id(file)] = file
            pending += [] if isinstance(file, TaskFile) else [*file.nested.values()][::-1]
    return [*files.values()]


def model_names(declared: WorkflowDefinition, replaced: Collection[str] = ()) -> Iterator[str]:
    """Yield the models of all agents declared in a workflow and its files, but for ``replaced`` ones, given in Python."""
    for spec in with_files(declared):
        agents = spec.agents if isinstance(spec, WorkflowSpec) else {}  # a task file declares none
        for name, agent in agents.items():
            if agent.model is not None and not agent.replies and name not in replaced:
                yield agent.model


def mark_typed(spec: WorkflowSpec) -> WorkflowSpec:
    """Return the workflow with its agents' models as the person's own word; models in its files stay those of files."""
    models = {name: str(agent.model) for name, agent in spec.agents.items() if agent.model is not None}
    return replace(_with_models(spec, models), is_typed=True)


def without_folders(declared: WorkflowDefinition) -> WorkflowDefinition:
    """Return a workflow from a log of others, whose files are only said to be where it says: its models have no folder."""
    if isinstance(declared, TaskFile):
        return declared
    models = {name: FileModelName(agent.model) for name, agent in declared.agents.items() if agent.model is not None}
    nested = {path: without_folders(file) for path, file in declared.nested.items()}
    return replace(_with_models(declared, models), nested=nested)


def _with_models(spec: WorkflowSpec, models: Mapping[str, str]) -> WorkflowSpec:
    """Return the workflow with these models of its agents."""
    return replace(spec, agents={name: replace(agent, model=models.get(name)) for name, agent in spec.agents.items()})


def tool_names(declared: WorkflowDefinition) -> tuple[str, ...]:
    """Return the names of the tools that a workflow of either form needs, each once."""
    if isinstance(declared, TaskFile):
        return declared.tool_names
    of_agents = (name for agent in declared.agents.values() for name in agent.tools)
    return tuple(dict.fromkeys([*names_of_tool_steps(walk_all(declared.steps)), *of_agents]))


def tool_names_of_files(declared: WorkflowDefinition) -> tuple[str, ...]:
    """Return the names of the tools that a workflow needs and those that it runs as files, each once."""
    return tuple(dict.fromkeys(name for file in with_files(declared) for name in tool_names(file)))


def actions_of(declared: WorkflowDefinition) -> frozenset[str]:
    """Return the actions of the tasks of a task file, or of those that a workflow runs as files, as they are written."""
    return frozenset(name for file in with_files(declared) if isinstance(file, TaskFile) for name in file.actions)
