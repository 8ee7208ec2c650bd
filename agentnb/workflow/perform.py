"""The work of the steps that do some: an agent, a tool, the person, another workflow."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping
from typing import Any

from agentnb.core.json_schema import plain_data
from agentnb.core.questions import TEXT
from agentnb.detect.run import Run
from agentnb.runtime.steps import Runnable
from agentnb.workflow import spec as s
from agentnb.workflow.agents import WorkflowAgents
from agentnb.workflow.engine import Attempt, Performers, WorkflowEngine
from agentnb.workflow.nested import NestedRuns
from agentnb.workflow.prior_outputs import WITHOUT_PROMPT, with_prior_outputs
from agentnb.workflow.step_failures import StepEndedBadly, of_run
from agentnb.workflow.step_questions import StepQuestions
from agentnb.workflow.templates import rendered, rendered_text
from agentnb.workflow.tool_steps import ToolSteps

OpenWorkflow = Callable[[s.WorkflowStep, Mapping[str, Any], Run | None], Runnable]
"""Returns the workflow of another file with these inputs, ready to run; of a run that is resumed, the one in its log."""


def performers(agents: WorkflowAgents, opened: OpenWorkflow) -> Performers:
    """Return what makes the performers of a run."""

    def made(engine: WorkflowEngine) -> Mapping[str, Callable[[Any, Attempt], Coroutine[Any, Any, Any]]]:
        if engine.log.run.events:  # the run is recovered
            agents.continue_scripts(engine.log)
        return _Performers(engine, agents, opened).by_kind

    return made


class _Performers:
    """Does the work of the steps of one run."""

    def __init__(self, engine: WorkflowEngine, agents: WorkflowAgents, opened: OpenWorkflow) -> None:
        self._engine = engine
        self._agents = agents
        self._opened = opened
        self._runs = NestedRuns(engine)
        self._questions = StepQuestions(engine, self._runs)
        self._tools = ToolSteps(engine, self._runs, agents.toolbox, agents.gates)
        self.by_kind: Mapping[str, Callable[[Any, Attempt], Coroutine[Any, Any, Any]]] = {
            "agent": self._agent,
            "tool": self._tool,
            "human": self._human,
            "workflow": self._workflow,
        }

    async def _agent(self, step: s.AgentStep, attempt: Attempt) -> str:
        scope = attempt.place.scope
        agent = self._agents.agent_for(step.agent, attempt.place.path, scope)
        own = scope.prompt if step.prompt is None else rendered_text(step.prompt, scope)
        prompt = with_prior_outputs(own or WITHOUT_PROMPT, scope.steps, step.context)
        return (await self._nested(attempt, agent, prompt)).text

    async def _tool(self, step: s.ToolStep, attempt: Attempt) -> Any:
        arguments = rendered(step.args, attempt.place.scope) if step.args else {}
        return await self._tools.call(self._agents.tool(step.tool), arguments, attempt)

    async def _workflow(self, step: s.WorkflowStep, attempt: Attempt) -> Any:
        scope = attempt.place.scope
        prompt = scope.prompt if step.prompt is None else rendered_text(step.prompt, scope)
        before = None if attempt.is_new else self._engine.nested_log(attempt.run_id)
        what = self._opened(step, rendered(dict(step.inputs), scope), before)
        run = await self._nested(attempt, what, prompt)
        return run.text if run.output is None else run.output

    async def _human(self, step: s.HumanStep, attempt: Attempt) -> Any:
        return await self._questions.ask(attempt, rendered_text(step.ask, attempt.place.scope), _schema(step))

    async def _nested(self, attempt: Attempt, what: Runnable, prompt: str) -> Run:
        """Return the nested run that has completed."""
        run = await self._runs.run(attempt, what, prompt)
        if run.status != "completed":
            raise StepEndedBadly(of_run(run))
        return run


def _schema(step: s.HumanStep) -> dict[str, Any]:
    if step.form is not None:
        return dict(plain_data(dict(step.form)))
    if step.choices:
        return {"enum": list(step.choices)}
    return {"type": "boolean"} if step.confirm else TEXT
