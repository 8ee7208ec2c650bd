"""A workflow with the files that it runs, and the models and tools that they name."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import replace

from agentnb.workflow.declared_graph import Declared
from agentnb.workflow.spec import Step, ToolStep, WorkflowSpec
from agentnb.workflow.step_tree import walk_all
from agentnb.workflow.tasks.spec import TaskFile


def with_files(declared: Declared) -> list[Declared]:
    """Return the workflow and those of all files that it runs, as far as they were read with it, each once."""
    files: dict[int, Declared] = {}
    left = [declared]
    while left:
        one = left.pop()
        if id(one) not in files:
            files[id(one)] = one
            left += [] if isinstance(one, TaskFile) else [*one.nested.values()][::-1]
    return [*files.values()]


def model_names(declared: Declared, replaced: Collection[str] = ()) -> Iterator[str]:
    """Yield the models of the agents that are declared, those of its files too. ``replaced``: agents that Python replaces."""
    for spec in with_files(declared):
        agents = spec.agents if isinstance(spec, WorkflowSpec) else {}  # a task file declares none
        for name, agent in agents.items():
            if agent.model is not None and not agent.replies and name not in replaced:
                yield agent.model


def typed(spec: WorkflowSpec) -> WorkflowSpec:
    """Return the workflow with the models of its agents as the person's own word; those of its files stay what they are."""
    agents = {name: replace(one, model=None if one.model is None else str(one.model)) for name, one in spec.agents.items()}
    return replace(spec, agents=agents, is_typed=True)


def tool_names(declared: Declared) -> tuple[str, ...]:
    """Return the names of the tools that a workflow of either form needs, each once."""
    if isinstance(declared, TaskFile):
        return declared.tool_names
    of_agents = (name for one in declared.agents.values() for name in one.tools)
    return tuple(dict.fromkeys([*names_of_tool_steps(walk_all(declared.steps)), *of_agents]))


def tool_names_of_files(declared: Declared) -> tuple[str, ...]:
    """Return the names of the tools that a workflow needs and those that it runs as files, each once."""
    return tuple(dict.fromkeys(name for file in with_files(declared) for name in tool_names(file)))


def names_of_tool_steps(steps: Iterable[Step]) -> list[str]:
    """Return the names of the tools that these steps call."""
    return [step.tool for step in steps if isinstance(step, ToolStep)]
