"""Calls the actions of tasks: tools, and those of the table, with what these may do."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from agentnb.advice import Plain, advised
from agentnb.core.log.work_events import PlanProposed, StepSkipped, StepStarted
from agentnb.core.messages import ToolCall
from agentnb.core.questions import TEXT, NoAnswer
from agentnb.core.schema.json_schema import plain_data
from agentnb.core.step_retry import ONCE, Retry
from agentnb.detect.run import Run
from agentnb.errors import Declined, ExpressionError, QuestionCancelled, UnknownTool
from agentnb.policies.gates import Block, Gate
from agentnb.runtime.host.run_options import folder_of
from agentnb.runtime.steps.attempt import Attempt, Place
from agentnb.runtime.steps.nested_runs import Runnable
from agentnb.runtime.steps.step_failures import FailedStep, StepEndedBadly, StepFailure
from agentnb.runtime.steps.step_runner import StepRunner, Work
from agentnb.tools.builtin.named import near_tools
from agentnb.tools.rendering import as_text
from agentnb.tools.tool import Tool
from agentnb.workflow.graph.nodes import Call, Graph, Node
from agentnb.workflow.running.execution import MAX_PLAN_ITERATIONS, Execution, call_step
from agentnb.workflow.running.step_gates import gates_of
from agentnb.workflow.running.step_questions import StepQuestions
from agentnb.workflow.running.tool_steps import ToolSteps
from agentnb.workflow.running.walker import Handle, Walker
from agentnb.workflow.tasks.actions import ActionCall, ActionTable, ToolAnswer
from agentnb.workflow.tasks.file_rules import FileRules
from agentnb.workflow.tasks.model_steps import ModelSteps
from agentnb.workflow.tasks.spec import ApprovalRules
from agentnb.workflow.tasks.variables import parsed


class Calls:
    """The calls of one run."""

    def __init__(
        self,
        steps: StepRunner,
        table: ActionTable,
        rules: ApprovalRules,
        settings: Mapping[str, Any],
        max_plans: int,
        handle: Handle,
    ) -> None:
        """``handle`` does what a task says for a failure."""
        self._steps = steps
        self._actions = table
        self._settings = settings
        self._handle = handle
        self._questions = StepQuestions(steps)
        self._models = ModelSteps(steps, settings)
        self._max_plans = max_plans
        of_file = () if rules.allows_all else (FileRules(rules.rules),)
        gates: tuple[Gate, ...] = (*gates_of(settings.get("agent_settings") or {}), *of_file)
        self._tools = ToolSteps(steps, table.tools, gates)

    @property
    def _table(self) -> ActionTable:
        """The actions, and the tools that can be called now."""
        if self._actions.tools is not self._tools.toolbox:
            self._actions = replace(self._actions, tools=self._tools.toolbox)
        return self._actions

    def label(self, node: Node) -> str:
        """Return what the log calls the action of a task; empty if it has none."""
        return self._actions.label(node.does.name) if isinstance(node.does, Call) else ""

    def begin(self, execution: Execution) -> tuple[Work, Mapping[str, Any]]:
        """Return what calls the action of a task, and what the log says of it."""
        call, given = execution.node.does, None
        if call is None:
            return _nothing, {}
        if execution.problem is None:
            try:
                given = execution.place.scope.filled(dict(call.args))
            except ExpressionError as error:
                execution.problem = error
        return partial(self._act, call, given, execution), {"agent": self.label(execution.node), "inputs": given}

    async def _act(self, does: Call, given: Any, execution: Execution, attempt: Attempt) -> Any:
        function = self._actions.action(does.name)
        if function is None:
            result = await self._tools.call(self._tool(does.name), given or {}, attempt)
        else:
            result = plain_data(await function(self._call(given, execution, attempt)), f"The result of {does.name}")
        attempt.is_plain = True
        return parsed(result) if does.parses else result

    def _call(self, given: Any, execution: Execution, attempt: Attempt) -> ActionCall:
        return ActionCall(
            input=given or {},
            path=attempt.place.path,
            tools=self._table.tools,
            settings=self._settings,
            call_tool=partial(self._call_tool, attempt.place),
            run=partial(self._run, attempt.place),
            ask=partial(self._ask, attempt.place),
            ask_model=partial(self._models.ask, attempt.place),
            propose=self._propose,
            check_plans=partial(self._check_plans, attempt.place),
            abort=partial(setattr, execution, "aborts_with"),
            walk=self._walk,
            skip=partial(self._skip, attempt.place),
            work_dir=folder_of(self._steps.work_dir),
            failed=partial(self._failed, execution),
        )

    def _check_plans(self, around: Place, key: str) -> None:
        has_begun = self._steps.journal.is_next(StepStarted, call_step(around, key)[1].path)
        if not has_begun and len(self._steps.log.run.plans) >= self._max_plans:
            what = f"{self._max_plans} plans were made, and the last one is not the end"
            words = frozenset({MAX_PLAN_ITERATIONS})
            advice = advised("If that is too few, set max_plan_iterations of the task file")
            raise StepEndedBadly(StepFailure(what, words, advice, is_final=True))

    def _propose(self, plan_id: str, plan: dict[str, Any]) -> None:
        if plan_id not in self._steps.log.run.plans:
            self._steps.log.emit(PlanProposed, plan_id=plan_id, plan=plan)

    def _tool(self, name: str) -> Tool:
        tool = self._table.tool(name)
        if tool is None:
            known = [one.spec.name for one in self._table.tools]
            raise UnknownTool(f"There is no tool {name}", near_tools(name, known, Plain("Give the run its tools: tools=[f]")))
        return tool

    async def _call_tool(
        self, around: Place, key: str, name: str, arguments: dict[str, Any], retries: int = 0, block: Block | None = None
    ) -> ToolAnswer:
        step, place = call_step(around, key, Retry(max_attempts=retries, initial_delay_seconds=0) if retries else ONCE)
        tool = self._tool(name)
        work = partial(self._tools.call, tool, arguments, block=block, repeats=False, read=as_returned)
        try:
            return ToolAnswer(await self._steps.attempts(step, place, work, agent=tool.spec.name, inputs=arguments))
        except FailedStep as error:
            return ToolAnswer(None, error.failure.text)

    async def _walk(self, graph: Graph, hands: Any) -> None:
        await Walker(self._steps, graph, lambda *_: hands).walk(None)

    async def _run(self, around: Place, key: str, runnable: Runnable, prompt: str) -> Run:
        step, place = call_step(around, key)
        return await self._steps.nested_run(step, place, runnable, prompt)

    async def _ask(
        self, around: Place, key: str, message: str, schema: dict[str, Any] | None = None, call: ToolCall | None = None
    ) -> dict[str, Any]:
        step, place = call_step(around, key)

        async def work(attempt: Attempt) -> dict[str, Any]:
            try:
                answer = await self._questions.ask(attempt, message, schema or TEXT, "elicitation", call)
            except QuestionCancelled:
                return {"action": NoAnswer.CANCEL.value, "content": None}
            except Declined:
                return {"action": NoAnswer.DECLINE.value, "content": None}
            return {"action": "accept", "content": answer}

        answer: dict[str, Any] = await self._steps.attempts(step, place, work, agent="person", inputs={"message": message})
        return answer

    def _skip(self, around: Place, key: str, reason: str) -> None:
        self._steps.record(StepSkipped, call_step(around, key)[1].path, reason=reason)

    async def _failed(self, execution: Execution, name: str, error: str) -> bool:
        await self._handle(execution, name, error)
        if execution.node.abort:
            execution.aborts_with = error
        return execution.node.abort


async def _nothing(attempt: Attempt) -> None:
    """Do the work of a task without an action."""


def as_returned(text: str) -> Any:
    """Return what a tool returned, by the text that the log has of it: data if that is the text of this data."""
    value = parsed(text)
    return value if not isinstance(value, str) and as_text(value) == text else text
