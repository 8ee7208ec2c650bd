"""Handlers for steps with their own kind of work: agent, tool, question, workflow."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping
from functools import partial
from typing import Any

from agentnb.core.questions import TEXT
from agentnb.core.schema.json_schema import plain_data
from agentnb.detect.run import Run
from agentnb.runtime.steps.attempt import Attempt
from agentnb.runtime.steps.nested_runs import Runnable
from agentnb.runtime.steps.step_failures import StepEndedBadly, of_run
from agentnb.runtime.steps.step_runner import StepRunner, Work
from agentnb.workflow.form import workflow_spec as s
from agentnb.workflow.graph.nodes import Call, Node
from agentnb.workflow.running.agents import WorkflowAgents
from agentnb.workflow.running.execution import Execution
from agentnb.workflow.running.step_questions import StepQuestions
from agentnb.workflow.running.tool_steps import ToolSteps
from agentnb.workflow.templates.templates import WITHOUT_PROMPT, render, render_text, with_prior_outputs

OpenWorkflow = Callable[[s.WorkflowStep, Mapping[str, Any], Run | None], Runnable]
"""Returns another file's workflow with these inputs, ready to run; for a resumed run, the workflow in its log."""


class StepHandlers:
    """Runs the steps of one run."""

    def __init__(self, steps: StepRunner, agents: WorkflowAgents, opened: OpenWorkflow) -> None:
        if steps.log.run.events:  # the run is recovered
            agents.continue_scripts(steps.log)
        self._runs = steps.nested
        self._agents = agents
        self._opened = opened
        self._questions = StepQuestions(steps)
        self._tools = ToolSteps(steps, agents.toolbox, agents.gates)

    def begin(self, execution: Execution) -> tuple[Work, Mapping[str, Any]]:
        """Return the work of a step and its fields for the log."""
        does = execution.node.does
        if type(does) is Call:
            return partial(self._tool, does), {"agent": does.name}
        nests = isinstance(does, s.AgentStep | s.WorkflowStep)
        return partial(_WORK[type(does)], self, does), {"agent": self.label(execution.node), "nests": nests}

    def label(self, node: Node) -> str:
        """Return the name of the agent, tool or file."""
        return node.words if isinstance(node.does, s.AgentStep | s.WorkflowStep | Call) else ""

    async def _agent(self, step: s.AgentStep, attempt: Attempt) -> str:
        scope = attempt.place.scope
        agent = self._agents.agent_for(step.agent, attempt.place.path, scope)
        own = scope.prompt if step.prompt is None else render_text(step.prompt, scope)
        prompt = with_prior_outputs(own or WITHOUT_PROMPT, scope, step.context)
        return (await self._run_nested(attempt, agent, prompt)).text

    async def _tool(self, call: Call, attempt: Attempt) -> Any:
        arguments = dict(call.args) if call.is_constant else render(call.args, attempt.place.scope)
        return await self._tools.call(call.name, arguments, attempt)

    async def _workflow(self, step: s.WorkflowStep, attempt: Attempt) -> Any:
        scope = attempt.place.scope
        prompt = scope.prompt if step.prompt is None else render_text(step.prompt, scope)
        before = None if attempt.is_new else self._runs.load(attempt.run_id)
        workflow = self._opened(step, render(dict(step.inputs), scope), before)
        run = await self._run_nested(attempt, workflow, prompt, before)
        return run.text if run.output is None else run.output

    async def _human(self, step: s.HumanStep, attempt: Attempt) -> Any:
        return await self._questions.ask(attempt, render_text(step.ask, attempt.place.scope), _schema(step))

    async def _run_nested(self, attempt: Attempt, runnable: Runnable, prompt: str, before: Run | None = None) -> Run:
        """Run a nested run to completion and return it."""
        run = await self._runs.run(attempt, runnable, prompt, before=before)
        if run.status != "completed":
            raise StepEndedBadly(of_run(run))
        return run


def _schema(step: s.HumanStep) -> dict[str, Any]:
    if step.form is not None:
        return dict(plain_data(dict(step.form)))
    if step.choices:
        return {"enum": list(step.choices)}
    return {"type": "boolean"} if step.confirm else TEXT


_WORK: dict[type, Callable[..., Coroutine[Any, Any, Any]]] = {
    s.AgentStep: StepHandlers._agent,
    s.HumanStep: StepHandlers._human,
    s.WorkflowStep: StepHandlers._workflow,
}
