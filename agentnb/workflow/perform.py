"""The work of the steps that do some: an agent, a tool, the person, another workflow."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any

from agentnb.core.json_schema import plain_data
from agentnb.core.questions import TEXT, AskedQuestion
from agentnb.detect.run import Run
from agentnb.errors import NobodyToAsk
from agentnb.runtime.elicitation import CallElicitor, current_call
from agentnb.runtime.run_end import Suspended
from agentnb.runtime.run_options import RunOptions
from agentnb.runtime.steps import Runnable
from agentnb.workflow import spec as s
from agentnb.workflow.agents import WorkflowAgents
from agentnb.workflow.engine import Attempt, Performers, WorkflowEngine
from agentnb.workflow.prior_outputs import WITHOUT_PROMPT, with_prior_outputs
from agentnb.workflow.step_failures import StepEndedBadly, of_run
from agentnb.workflow.templates import rendered, rendered_text
from agentnb.workflow.tool_steps import ToolSteps

OpenWorkflow = Callable[[s.WorkflowStep, Mapping[str, Any]], Runnable]
"""Returns the workflow of another file with these inputs, ready to run."""


def performers(agents: WorkflowAgents, opened: OpenWorkflow) -> Performers:
    """Return what makes the performers of a run."""

    def made(engine: WorkflowEngine) -> Mapping[str, Callable[[Any, Attempt], Awaitable[Any]]]:
        return _Performers(engine, agents, opened).by_kind

    return made


class _Performers:
    """Does the work of the steps of one run."""

    def __init__(self, engine: WorkflowEngine, agents: WorkflowAgents, opened: OpenWorkflow) -> None:
        self._engine = engine
        self._agents = agents
        self._opened = opened
        self._tools = ToolSteps(engine.log, engine.elicitation, self._start_run)
        self.by_kind: Mapping[str, Callable[[Any, Attempt], Awaitable[Any]]] = {
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
        return await self._tools.call(self._agents.tool(step.tool), arguments, attempt.place.path)

    async def _workflow(self, step: s.WorkflowStep, attempt: Attempt) -> str:
        scope = attempt.place.scope
        prompt = scope.prompt if step.prompt is None else rendered_text(step.prompt, scope)
        return (await self._nested(attempt, self._opened(step, rendered(dict(step.inputs), scope)), prompt)).text

    async def _human(self, step: s.HumanStep, attempt: Attempt) -> Any:
        question, schema = rendered_text(step.ask, attempt.place.scope), _schema(step)
        earlier = None if attempt.is_new else self._asked(attempt.place.path)
        if earlier is not None and earlier.outcome == "answered":
            return earlier.answer
        known = "" if earlier is None else earlier.question.id
        is_open = earlier is not None and earlier.outcome == "open"
        asked_as = known if is_open or self._engine.elicitation.has_answer(known) else ""
        with self._asks(attempt) as asker:
            try:
                return await asker.ask_before(question, schema, None, asked_as, "human_step")
            except NobodyToAsk:
                if not self._engine.elicitation.suspends:
                    raise
                asker.leave_open(question, schema, asked_as, "human_step")
                raise Suspended("nobody_here") from None

    def _asked(self, path: str) -> AskedQuestion | None:
        """Return what this step asked last, in a process that died or was not waited for."""
        asked = self._engine.log.run.questions
        return next((one for one in reversed(asked) if one.question.call_id == path), None)

    async def _nested(self, attempt: Attempt, what: Runnable, prompt: str) -> Run:
        """Return the nested run that has completed."""
        elicitation, options = self._engine.elicitation, None
        if elicitation.suspends or not attempt.is_new:
            answers = None if attempt.is_new else elicitation.given or None
            options = RunOptions(suspend=elicitation.suspends, answers=answers)
        with self._asks(attempt):
            run = await self._engine.nested_run(attempt.run_id, what, prompt, options, is_new=attempt.is_new)
        if run.is_suspended:
            raise Suspended("nobody_here")
        if run.status != "completed":
            raise StepEndedBadly(of_run(run))
        return run

    async def _start_run(self, agent: Any, prompt: Any) -> Run:
        """Begin a nested run for a tool, and wait for its end."""
        run: Run = await agent.run(prompt, RunOptions(parent=self._engine.log))
        return run

    @contextmanager
    def _asks(self, attempt: Attempt) -> Iterator[CallElicitor]:
        """What asks in this block asks the person of the run, and the time limit of the step stands still meanwhile."""
        asker = self._engine.elicitation.asker(attempt.place.path)
        asker.limit = attempt.limit
        outer = current_call.set(asker)
        try:
            yield asker
        finally:
            with suppress(ValueError):  # a run that was not awaited is closed from another context
                current_call.reset(outer)
            asker.close()


def _schema(step: s.HumanStep) -> dict[str, Any]:
    if step.form is not None:
        return dict(plain_data(dict(step.form)))
    if step.choices:
        return {"enum": list(step.choices)}
    return {"type": "boolean"} if step.confirm else TEXT
