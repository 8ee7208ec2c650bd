"""Calls the actions of tasks: tools, and those of the table, with what these may do."""

from __future__ import annotations

from collections.abc import Coroutine, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from agentnb.advice import advised
from agentnb.core.log.work_events import PlanProposed, StepStarted
from agentnb.core.messages import ToolCall
from agentnb.core.questions import TEXT, NoAnswer
from agentnb.core.request import Request
from agentnb.core.schema.json_schema import plain_data
from agentnb.detect.run import Run
from agentnb.errors import Declined, ExpressionError, QuestionCancelled
from agentnb.policies.gates import Ask, Block, Deny, Gate
from agentnb.policies.permissions.rules import Rule
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
from agentnb.workflow.tasks.actions import Action, ActionTable
from agentnb.workflow.tasks.model_steps import ModelAnswer, ModelSteps
from agentnb.workflow.tasks.spec import ApprovalRules
from agentnb.workflow.templates.json_in_text import parsed
from agentnb.workflow.templates.templates import rendered


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
        """Return what the log calls the action of a task, or the tool by its own name; empty if it has none."""
        name = node.does.name if isinstance(node.does, Call) else ""
        return name if name in self._actions.actions else tool_of_word(name)

    def begin(self, execution: Execution) -> tuple[Work, Mapping[str, Any]]:
        """Return what calls the action of a task, and what the log says of it."""
        call = execution.node.does
        if call is None:
            return _nothing, {}
        given, function = dict(call.args), self._actions.actions.get(call.name)
        if execution.problem is None and not call.is_constant:
            try:
                given = rendered(given, execution.place.scope, is_copied=not getattr(function, "keeps_input", False))
            except ExpressionError as error:
                execution.problem = error
        inputs = given if execution.problem is None else None
        return partial(self._act, call, function, given, execution), {"agent": self.label(execution.node), "inputs": inputs}

    async def _act(self, does: Call, function: Action | None, given: Any, execution: Execution, attempt: Attempt) -> Any:
        if function is None:
            result = await self.tool_steps.call(does.name, given, attempt)
        else:
            call = ActionCall(self, execution, attempt.place, given, self.tool_steps.toolbox)
            result = await function(call)
            if not execution.is_plain:
                result = plain_data(result, f"The result of {does.name}")
        attempt.is_plain = True
        return parsed(result) if does.parses else result


@dataclass(frozen=True, slots=True)
class ActionCall:
    """One attempt at the action of a task: its input, and what the action may do.

    After a kill, an action that had not ended is called again. What it called through this is not done a second time if it had
    ended: give each a key that is the same again.
    """

    _calls: Calls
    _execution: Execution
    _place: Place
    input: Mapping[str, Any]
    """With its ``${...}`` replaced."""
    tools: Toolbox

    @property
    def path(self) -> str:
        """That of the task."""
        return self._place.path

    @property
    def settings(self) -> Mapping[str, Any]:
        """What the run was given for its models: ``model`` and ``replies``."""
        return self._calls.settings

    @property
    def work_dir(self) -> Path:
        """The folder of the run."""
        return self._calls.steps.context.work_dir

    def call_tool(
        self, execution: Execution, tool: Tool, arguments: Any, block: Block | None = None
    ) -> Coroutine[Any, Any, Any]:
        """Call a tool as a step of its own; return its output, which is plain data, else the text that a model would read.

        With a ``block`` the call is logged as one that must not run. A call that a kill cut off fails, and is not made again,
        unless its tool is ``repeatable``. Raises `FailedStep`.
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
        """Walk a graph of steps of the action; ``await hands.do(execution)`` does each."""
        await Walker(self._calls.steps, graph, lambda *_: hands).walk(None)

    async def run(self, key: str, what: Runnable, prompt: str) -> Run:
        """Run an agent as a nested run, and return that, however it ended."""
        return await self._calls.steps.nested_run(*call_step(self._place, key), what, prompt)

    async def ask(
        self, key: str, message: str, schema: dict[str, Any] | None = None, call: ToolCall | None = None
    ) -> dict[str, Any]:
        """Ask the person, also for a call, which they see.

        Returns ``{"action": "accept", "content": ANSWER}``, or ``decline`` or ``cancel`` without content. Where nobody is here
        to answer, the run is suspended, if it can be; else it raises.
        """

        async def work(attempt: Attempt) -> dict[str, Any]:
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
        """Call a model beside all conversations, as a step of its own. ``model``: its name, by default that of the run."""
        return await self._calls.models.ask(self._place, key, request, operation, model)

    def propose(self, plan_id: str, plan: dict[str, Any]) -> None:
        """Log that a plan was made, as plain data, unless the log has it."""
        log = self._calls.steps.log
        if plan_id not in log.run.plans:
            log.emit(PlanProposed, plan_id=plan_id, plan=plan)

    def check_plans(self, key: str) -> None:
        """Raise if the run may make no further plan, unless a process that died began this call of a model."""
        steps, most = self._calls.steps, self._calls.max_plans
        has_begun = steps.journal.is_next(StepStarted, call_step(self._place, key)[1].path)
        if not has_begun and len(steps.log.run.plans) >= most:
            what = f"{most} plans were made, and the last one is not the end"
            words = frozenset({MAX_PLAN_ITERATIONS})
            advice = advised("If that is too few, set max_plan_iterations of the task file")
            raise StepEndedBadly(StepFailure(what, words, advice, is_final=True))

    def return_plain(self) -> None:
        """Note that what the action returns is plain data, which nothing changes."""
        self._execution.is_plain = True

    def abort(self, reason: str) -> None:
        """End the run with this error when the action has returned what it has; ``post`` still sees it."""
        self._execution.aborts_with = reason

    def skip(self, key: str, reason: str) -> None:
        """Log that a step of the action is not run, and why."""
        self._calls.steps.skip(call_step(self._place, key)[1].path, reason)

    async def failed(self, name: str, error: str) -> bool:
        """Do what ``onError`` says, once for each execution of the task.

        If it returns True the action stops and returns what it has, which ``post`` still sees: then the run ends.
        """
        await self._calls.handle(self._execution, name, error)
        if self._execution.node.abort:
            self._execution.aborts_with = error
        return self._execution.node.abort


async def _nothing(attempt: Attempt) -> None:
    """Do the work of a task without an action."""


def as_returned(text: str) -> Any:
    """Return what a tool returned, by the text that the log has of it: data if that is the text of this data."""
    value = parsed(text)
    return value if not isinstance(value, str) and as_text(value) == text else text


@dataclass(frozen=True, slots=True)
class FileRules:
    """The gate of a task file's approval rules."""

    rules: tuple[Rule, ...]

    def __call__(self, call: ToolCall, run: Run) -> Ask | Deny | None:
        """Return the question about the call, the denial, or None for a call that may run."""
        verdict = next((rule.verdict for rule in self.rules if rule.is_about(call.name, None)), "allow")
        if verdict == "deny":
            return Deny("the approval rules of the task file do not allow it")
        if verdict == "ask":  # about each call: "always" is no answer
            return Ask(f"May the task {call.id} call {call.name}?")
        return None
