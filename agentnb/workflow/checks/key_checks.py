"""Check for the API keys that a workflow certainly needs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from agentnb.errors import MissingKey
from agentnb.models.registry import check_key
from agentnb.workflow.form.step_tree import walk
from agentnb.workflow.form.workflow_spec import AgentStep, GotoStep, HumanStep, ParallelStep, Step, WorkflowSpec


def check_keys(spec: WorkflowSpec, model: str | None = None) -> None:
    """Raise `MissingKey`, naming the agent and the step, if a step that is certain to run needs a key that is not set.

    ``model``: the model for agents without their own. Steps in branches and maps, steps after a question or a jump, and steps
    whose failure is handled are excluded, since the run may succeed without them.
    """
    for step in _certain_agents(spec.steps):
        agent = spec.agents.get(step.agent)
        name = None if agent is None or agent.replies else agent.model or model
        if name is not None:
            try:
                check_key(name)
            except MissingKey as error:
                raise MissingKey(f"Agent {step.agent} of step {step.path}: {error.what}", error.advice) from error


def _certain_agents(steps: Sequence[Step]) -> Iterator[AgentStep]:
    """Yield the agent steps that every run reaches and whose failure makes the run fail."""
    for step in steps:
        if not _is_handled(step):
            inner = step.steps if isinstance(step, ParallelStep) else (step,)
            yield from (nested for nested in inner if isinstance(nested, AgentStep) and not _is_handled(nested))
        if any(
            isinstance(nested, GotoStep | HumanStep) or nested.end or nested.on_error.goto is not None for nested in walk(step)
        ):
            return  # it may end here, jump elsewhere, or be resumed by a process that has the key


def _is_handled(step: Step) -> bool:
    return step.on_error.continues or step.on_error.goto is not None
