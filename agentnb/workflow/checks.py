"""Checks a workflow as a whole, once its steps have been read."""

from __future__ import annotations

from collections.abc import Collection

from agentnb.errors import near
from agentnb.workflow.flow_checks import FlowChecks
from agentnb.workflow.places import Places
from agentnb.workflow.problems import Problems
from agentnb.workflow.reference_checks import ReferenceChecks
from agentnb.workflow.spec import AgentStep, GotoStep, Step, ToolStep, WorkflowSpec
from agentnb.workflow.step_tree import StepTree


def check_workflow(
    spec: WorkflowSpec,
    places: Places,
    problems: Problems,
    *,
    agents: Collection[str] = (),
    tools: Collection[str] | None = None,
    inputs: Collection[str] | None = None,
) -> None:
    """Note all that is wrong with where steps lead and what they name.

    ``agents``: names of agents that are passed in Python; ``tools`` and ``inputs``: the names that there are, if that is known.
    """
    tree = StepTree(spec.steps)
    for located in tree.all:
        _check_names(located.step, tree, spec, places, problems, agents, tools)
    checks = ReferenceChecks(tree, spec.agents, places, problems, agents, inputs)
    checks.check()
    FlowChecks(tree, checks.reads, places, problems).check()


def check_made_in_python(spec: WorkflowSpec, agents: Collection[str]) -> None:
    """Raise `WorkflowProblems` with all that is wrong with where the steps lead and which agents they name.

    For a workflow whose steps were made in Python, and not read from a text.
    """
    problems = Problems()
    check_workflow(spec, Places(), problems, agents=agents)
    problems.check()


def _check_names(
    step: Step,
    tree: StepTree,
    spec: WorkflowSpec,
    places: Places,
    problems: Problems,
    agents: Collection[str],
    tools: Collection[str] | None,
) -> None:
    where = places.names.get(step.path, f"step {step.path}")
    if isinstance(step, AgentStep):
        known = [*spec.agents, *(name for name in agents if name not in spec.agents)]
        if step.agent not in known:
            hint = (
                near(step.agent, known) or f'Declare it (agents:), or give it in Python: agents={{"{step.agent}": Agent(...)}}'
            )
            problems.add(places.line(step.path, "name", step.line), f'{where}: agent "{step.agent}" not found in agents', hint)
        for wanted in step.context if isinstance(step.context, tuple) else ():
            if wanted not in tree.by_id and wanted not in places.unread:
                ids = [one.step.id for one in tree.all if not isinstance(one.step, GotoStep)]
                line = places.line(step.path, "context", step.line)
                problems.add(line, f'{where}: context: there is no step "{wanted}"', near(wanted, ids))
    elif isinstance(step, ToolStep) and tools is not None and step.tool not in tools:
        hint = near(step.tool, tools) or "Give the workflow its tools: -t NAME, tools=[f]"
        problems.add(places.line(step.path, "name", step.line), f'{where}: there is no tool "{step.tool}"', hint)
