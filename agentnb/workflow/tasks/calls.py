"""Calls the actions of tasks: tools, and those of the table, with what these may do."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Any

from agentnb.core.json_schema import plain_data
from agentnb.core.questions import TEXT
from agentnb.detect.run import Run
from agentnb.errors import Declined, UnknownTool, near
from agentnb.policies.gates import Gate
from agentnb.runtime.steps import Runnable
from agentnb.workflow.engine import Attempt, Place, WorkflowEngine
from agentnb.workflow.nested import NestedRuns
from agentnb.workflow.spec import Retry
from agentnb.workflow.step_failures import FailedStep, StepEndedBadly, of_run
from agentnb.workflow.step_gates import gates_of
from agentnb.workflow.step_questions import StepQuestions
from agentnb.workflow.tasks.actions import ActionCall, ActionTable, ToolAnswer
from agentnb.workflow.tasks.execution import Execution
from agentnb.workflow.tasks.file_rules import FileRules
from agentnb.workflow.tasks.spec import ApprovalRules, CallStep
from agentnb.workflow.tool_steps import ToolSteps

Handle = Callable[[Execution, str, str], Awaitable[None]]
"""Does what ``onError`` of a task says, with the name of what has failed and the error."""


class Calls:
    """The calls of one run."""

    def __init__(
        self,
        engine: WorkflowEngine,
        table: ActionTable,
        rules: ApprovalRules,
        settings: Mapping[str, Any],
        handle: Handle,
    ) -> None:
        self._engine = engine
        self._table = table
        self._settings = settings
        self._handle = handle
        self._runs = NestedRuns(engine)
        self._questions = StepQuestions(engine, self._runs)
        gates: tuple[Gate, ...] = (*gates_of(settings.get("agent_settings") or {}), FileRules(rules.rules))
        self._tools = ToolSteps(engine, self._runs, table.tools, gates)

    async def act(self, action: str, given: Any, attempt: Attempt, execution: Execution | None = None) -> Any:
        """Return the result of an action with this input. ``execution``: of the task whose action it is, not its handler."""
        function = self._table.action(action)
        if function is None:
            return await self._call(action, given or {}, attempt)
        call = ActionCall(
            input=given or {},
            path=attempt.place.path,
            tools=self._table.tools,
            settings=self._settings,
            call_tool=partial(self._call_tool, attempt.place),
            run=partial(self._run, attempt.place),
            ask=partial(self._ask, attempt.place),
            failed=partial(self._failed, execution),
        )
        return plain_data(await function(call), f"The result of {action}")

    async def _call(self, name: str, arguments: dict[str, Any], attempt: Attempt) -> Any:
        tool = self._table.tool(name)
        if tool is None:
            known = [one.spec.name for one in self._table.tools]
            raise UnknownTool(f"There is no tool {name}", near(name, known) or "Give the run its tools: tools=[f]")
        return await self._tools.call(tool, arguments, attempt)

    async def _call_tool(self, around: Place, key: str, name: str, arguments: dict[str, Any], retries: int = 0) -> ToolAnswer:
        step, place = _step(around, key, Retry(max_attempts=retries, initial_delay_seconds=0))
        found: list[Any] = []
        work = partial(self._call, name, arguments)
        try:
            await self._engine.attempts(step, place, work, agent=self._table.label(name), inputs=arguments, done=found.append)
        except FailedStep as error:
            return ToolAnswer(None, error.failure.text)
        return ToolAnswer(found[0])

    async def _run(self, around: Place, key: str, what: Runnable, prompt: str) -> Run:
        step, place = _step(around, key)
        found: list[Run] = []

        async def work(attempt: Attempt) -> str:
            run = await self._runs.run(attempt, what, prompt)
            found.append(run)
            if run.status != "completed":
                raise StepEndedBadly(of_run(run))
            return run.text

        name = str(getattr(what, "name", ""))
        try:
            await self._engine.attempts(step, place, work, agent=name, inputs={"prompt": prompt}, nests=True)
        except FailedStep:
            if not found and not self._engine.log.run.step_records[place.path].nested:
                raise
        return found[-1] if found else self._engine.loaded(self._engine.log.run.step_records[place.path])

    async def _ask(self, around: Place, key: str, message: str, schema: dict[str, Any] | None = None) -> dict[str, Any]:
        step, place = _step(around, key)
        found: list[dict[str, Any]] = []

        async def work(attempt: Attempt) -> dict[str, Any]:
            try:
                answer = await self._questions.ask(attempt, message, schema or TEXT, "elicitation")
            except Declined:
                return {"action": "decline", "content": None}
            return {"action": "accept", "content": answer}

        await self._engine.attempts(step, place, work, agent="person", inputs={"message": message}, done=found.append)
        return found[0]

    async def _failed(self, execution: Execution | None, name: str, error: str) -> bool:
        if execution is None:
            return False
        await self._handle(execution, name, error)
        if execution.task.abort:
            execution.aborts_with = error
        return execution.task.abort


def _step(around: Place, key: str, retry: Retry | None = None) -> tuple[CallStep, Place]:
    path = f"{around.path}/{key}"
    return CallStep(id=key, path=path, retry=retry or Retry()), Place(path, around.path, around.scope)
