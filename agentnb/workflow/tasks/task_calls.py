"""Calls made by the actions of tasks: tools, and actions from the table with the services they use."""

from __future__ import annotations

from collections.abc import Coroutine, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from agentnb.advice import as_advice
from agentnb.core.log.work_events import PlanProposed, StepStarted
from agentnb.core.messages import JsonObject, ToolCall
from agentnb.core.questions import TEXT, NoAnswer
from agentnb.core.request import Request
from agentnb.core.schema.json_schema import plain_data
from agentnb.detect.run import Run
from agentnb.errors import Declined, ExpressionError, QuestionCancelled
from agentnb.policies.gates import Ask, Block, Deny, Gate
from agentnb.policies.permissions.permission_rules import Rule
from agentnb.runtime.steps.attempt import Attempt, Place
from agentnb.runtime.steps.nested_runs import Runnable
from agentnb.runtime.steps.step_failures import StepEndedBadly, StepFailure
from agentnb.runtime.steps.step_runner import StepRunner, Work
from agentnb.tools.mcp.wire_names import tool_of_word
from agentnb.tools.rendering import as_text
from agentnb.tools.tool import Tool
from agentnb.tools.toolbox import Toolbox
from agentnb.workflow.graph.nodes import Call, Graph, Node
from agentnb.workflow.running.agents import gates_of
from agentnb.workflow.running.execution import MAX_PLAN_ITERATIONS, Execution, call_step
from agentnb.workflow.running.step_questions import StepQuestions
from agentnb.workflow.running.tool_steps import ToolSteps
from agentnb.workflow.running.walker import Handle, Walker
from agentnb.workflow.tasks.action_table import Action, ActionTable
from agentnb.workflow.tasks.model_steps import ModelAnswer, ModelSteps
from agentnb.workflow.tasks.task_spec import ApprovalRules
from agentnb.workflow.templates.json_in_text import parse_result
from agentnb.workflow.templates.templates import render


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
        """``handle``: applies a task's failure settings."""
        self.steps = steps
        self._actions = table
        self.settings = settings
        self.handle = handle
        self.questions = StepQuestions(steps)
        self.models = ModelSteps(steps, settings)
        self.max_plans = max_plans
        of_file = () if rules.allows_all else (FileRules(rules.rules),)
        gates: tuple[Gate, ...] = (*gates_of(settings.get("agent_settings") or {}), *of_file)
        self.tool_steps = ToolSteps(steps, table.tools, gates)

    def label(self, node: Node) -> str:
        """Return the log label of a task: its action, or the tool's own name; empty if it has no action."""
        name = node.does.name if isinstance(node.does, Call) else ""
        return name if name in self._actions.actions else tool_of_word(name)

    def begin(self, execution: Execution) -> tuple[Work, Mapping[str, Any]]:
        """Return the call of a task's action and its fields for the log."""
        call = execution.node.does
        if call is None:
            return _nothing, {}
        arguments, function = dict(call.args), self._actions.actions.get(call.name)
        if execution.problem is None and not call.is_constant:
            try:
                arguments = render(arguments, execution.place.scope, is_copied=not getattr(function, "keeps_input", False))
            except ExpressionError as error:
                execution.problem = error
        inputs = arguments if execution.problem is None else None
        return partial(self._act, call, function, arguments, execution), {"agent": self.label(execution.node), "inputs": inputs}

    async def _act(self, does: Call, function: Action | None, arguments: Any, execution: Execution, attempt: Attempt) -> Any:
        if function is None:
            result = await self.tool_steps.call(does.name, arguments, attempt)
        else:
            call = ActionCall(self, execution, attempt.place, arguments, self.tool_steps.toolbox)
            result = await function(call)
            if not execution.is_plain:
                result = plain_data(result, f"The result of {does.name}")
        attempt.is_plain = True
        return parse_result(result) if does.parses else result


@dataclass(frozen=True, slots=True)
class ActionCall:
    """An attempt at a task's action: its input, and services for the action.

    If the process is killed, an unfinished action is called again. Calls that it completed through this object are not
    repeated, provided that they have the same keys as before.
    """

    _calls: Calls
    _execution: Execution
    _place: Place
    input: Mapping[str, Any]
    """The input, with every ``${...}`` replaced."""
    tools: Toolbox

    @property
    def path(self) -> str:
        """Path of the task."""
        return self._place.path

    @property
    def settings(self) -> Mapping[str, Any]:
        """The run's model settings, ``model`` and ``replies``."""
        return self._calls.settings

    @property
    def work_dir(self) -> Path:
        """Working directory of the run."""
        return self._calls.steps.context.work_dir

    def call_tool(
        self, execution: Execution, tool: Tool, arguments: Any, block: Block | None = None
    ) -> Coroutine[Any, Any, Any]:
        """Call a tool as a separate step; return its output as plain data or, failing that, as the text for a model.

        With a ``block``, the call is logged as denied. A call that was interrupted when the process was killed fails and is not
        repeated, unless its tool is ``repeatable``. Raises `FailedStep`.
        """
        call, name = self._calls.tool_steps.call, tool.spec.name
        return self._calls.steps.attempts(
            execution.node,
            execution.place,
            lambda attempt: call(name, arguments, attempt, block, repeats=False, read=as_returned),
            agent=name,
            inputs=arguments,
        )

    async def walk(self, graph: Graph, hands: Any) -> None:
        """Walk a graph of the action's steps; ``await hands.do(execution)`` runs each."""
        await Walker(self._calls.steps, graph, lambda *_: hands).walk(None)

    async def run(self, key: str, runnable: Runnable, prompt: str) -> Run:
        """Run an agent as a nested run and return that run, whatever its outcome."""
        return await self._calls.steps.nested_run(*call_step(self._place, key), runnable, prompt)

    async def ask(self, key: str, message: str, schema: JsonObject | None = None, call: ToolCall | None = None) -> JsonObject:
        """Ask the person, optionally about a call, which is shown to them.

        Returns ``{"action": "accept", "content": ANSWER}``, or ``decline`` or ``cancel`` without content. If nobody
        can answer, suspends the run where possible; otherwise raises an error.
        """

        async def work(attempt: Attempt) -> JsonObject:
            try:
                answer = await self._calls.questions.ask(attempt, message, schema or TEXT, "elicitation", call)
            except QuestionCancelled:
                return {"action": NoAnswer.CANCEL.value, "content": None}
            except Declined:
                return {"action": NoAnswer.DECLINE.value, "content": None}
            return {"action": "accept", "content": answer}

        step, inputs = call_step(self._place, key), {"message": message}
        return dict(await self._calls.steps.attempts(*step, work, agent="person", inputs=inputs))

    async def ask_model(self, key: str, request: Request, operation: str, model: str | None = None) -> ModelAnswer:
        """Call a model outside all conversations, as a separate step. ``model``: its name, by default the run's."""
        return await self._calls.models.ask(self._place, key, request, operation, model)

    def propose(self, plan_id: str, plan: JsonObject) -> None:
        """Log a plan as plain data, unless it is already logged."""
        log = self._calls.steps.log
        if plan_id not in log.run.plans:
            log.emit(PlanProposed, plan_id=plan_id, plan=plan)

    def warn_without_planner(self, plan_id: str | None) -> None:
        """Warn that a question replaced steps of a plan, unless a planner made it and continues with the answer."""
        log = self._calls.steps.log
        if plan_id not in log.run.plans:
            log.warn_once(
                "The plan ended with a question, and its remaining steps did not run",
                "Write the answer into the plan and run it again",
            )

    def check_plans(self, key: str) -> None:
        """Raise an error if the run has reached its maximum number of plans, unless a dead process began this model call."""
        steps, most = self._calls.steps, self._calls.max_plans
        has_begun = steps.journal.is_next(StepStarted, call_step(self._place, key)[1].path)
        if not has_begun and len(steps.log.run.plans) >= most:
            problem = f"The limit of {most} plans is reached, but the last plan does not end the run"
            words = frozenset({MAX_PLAN_ITERATIONS})
            advice = as_advice("If the limit is too low, set max_plan_iterations of the task file")
            raise StepEndedBadly(StepFailure(problem, words, advice, is_final=True))

    def return_plain(self) -> None:
        """Mark the action's result as plain data that nothing will modify."""
        self._execution.is_plain = True

    def abort(self, reason: str) -> None:
        """End the run with this error once the action has returned; ``post`` can still use its result."""
        self._execution.aborts_with = reason

    def skip(self, key: str, reason: str) -> None:
        """Log that a step of the action is skipped, and why."""
        self._calls.steps.skip(call_step(self._place, key)[1].path, reason)

    async def handle_failure(self, name: str, error: str) -> bool:
        """Run the ``onError`` handler, once per execution of the task.

        If it returns True, the action should stop and return its result, which ``post`` can still use; the run then
        ends.
        """
        await self._calls.handle(self._execution, name, error)
        if self._execution.node.abort:
            self._execution.aborts_with = error
        return self._execution.node.abort


async def _nothing(attempt: Attempt) -> None:
    """Do nothing, for a task without an action."""


def as_returned(text: str) -> Any:
    """Recover a tool's return value from its logged text: data, if the text is exactly the text form of that data."""
    value = parse_result(text)
    return value if not isinstance(value, str) and as_text(value) == text else text


@dataclass(frozen=True, slots=True)
class FileRules:
    """Gate for a task file's approval rules."""

    rules: tuple[Rule, ...]

    def __call__(self, call: ToolCall, run: Run) -> Ask | Deny | None:
        """Return a question about the call, a denial, or None for a call that may run."""
        verdict = next((rule.verdict for rule in self.rules if rule.is_about(call.name, None)), "allow")
        if verdict == "deny":
            return Deny("the approval rules of the task file do not allow it")
        if verdict == "ask":  # about each call, so "always" is not offered
            return Ask(f"May the task {call.id} call {call.name}?")
        return None
