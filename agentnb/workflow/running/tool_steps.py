"""Tools that workflow steps call directly, without a model."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

from agentnb.core.log.events import ToolFinished, ToolStarted
from agentnb.core.messages import ToolCall
from agentnb.core.run.approvals import READ_ONLY
from agentnb.core.run.rounds import DENIED
from agentnb.core.schema.json_schema import plain_data
from agentnb.errors import SettingsError
from agentnb.policies.gates import Block, Gate
from agentnb.policies.permissions.approval_mode import advice_on_denial
from agentnb.runtime.calls.call import Call
from agentnb.runtime.calls.run_tools import RunTools
from agentnb.runtime.calls.tool_calls import ToolCalls
from agentnb.runtime.host.consent import since_refusal
from agentnb.runtime.questions.question_book import since_start
from agentnb.runtime.run_end import Suspended
from agentnb.runtime.steps.attempt import Attempt
from agentnb.runtime.steps.step_failures import StepEndedBadly, StepFailure
from agentnb.runtime.steps.step_runner import StepRunner
from agentnb.tools import tool_errors
from agentnb.tools.tool import Tool, ToolOutcome
from agentnb.tools.toolbox import Toolbox
from agentnb.workflow.running.agents import find_tool

FAILED = frozenset({"tool_error", "failed", "error"})
"""Failure words of every failed call; its error code is added to them."""


class ToolSteps:
    """Calls tools for the steps of one run. The id of a call is the step's path."""

    def __init__(self, steps: StepRunner, toolbox: Toolbox, gates: Iterable[Gate] = ()) -> None:
        self._log = steps.log
        self._runs = steps.nested
        self._book = steps.elicitation.book
        tools = self._run_tools = RunTools(steps.log, toolbox, logs_changes=False)
        if steps.context.servers is not None:
            steps.context.servers.serve(tools)
        self._calls = steps.calls = ToolCalls(steps.context, tools, (*gates,))

    @property
    def toolbox(self) -> Toolbox:
        """The tools that can be called, including those of MCP servers once the first step has begun."""
        return self._run_tools.toolbox

    async def call(
        self,
        name: str,
        arguments: dict[str, Any],
        attempt: Attempt,
        block: Block | None = None,
        *,
        repeats: bool = True,
        read: Callable[[str], Any] | None = None,
    ) -> Any:
        """Return the output of the named tool as plain data or, failing that, as the text for a model.

        ``block``: the verdict that denies the call, if any; ``repeats``: whether to repeat an interrupted call, whatever the
        tool; ``read``: parses the logged text of a finished call, which is not repeated. Raises `StepEndedBadly` if the call
        fails or is denied, `UnknownTool`, and `Suspended` if nobody can answer.
        """
        tool = self._run_tools.toolbox.get(name) or find_tool(name, self.toolbox)
        step, attempt.is_plain = attempt.place.path, True
        call = Call(ToolCall(tool.spec.name, arguments, step), tool, step=step)
        open_call = None if attempt.is_new else self._log.run.open_step_call(step)
        if open_call is not None:  # left by a dead process, with nested calls of its tool
            self._calls.answer_inner((open_call.record,), tool_errors.interrupted)
        if block is not None:
            self._calls.refuse(call, block)
            raise StepEndedBadly(_block_failure(tool, block))
        if self._book.earlier:
            self._book.drop(step)
        if read is not None and not attempt.is_new and (ended := self._logged_outcome(step)) is not None:
            return read(_text(tool, ended))
        call.started = None if attempt.is_new else self._logged_start(step)
        if call.started is not None and not (repeats or self._is_repeated(tool, step)):
            outcome = tool_errors.interrupted(tool.spec.name)
            self._calls.close(step, outcome)
            raise StepEndedBadly(replace(_call_failure(tool, outcome), is_final=True))
        try:
            with self._runs.asker(attempt):
                await self._calls.run(call)
        except asyncio.CancelledError:
            is_late = attempt.limit is not None and attempt.limit.expired()
            self._calls.close(step, tool_errors.out_of_time("step") if is_late else tool_errors.cancelled())
            raise
        return _output(tool, call)

    def _is_repeated(self, tool: Tool, call_id: str) -> bool:
        """True if an interrupted call should be repeated: the tool is repeatable, or its MCP server permits it."""
        if not getattr(tool, "may_repeat", False):
            return bool(getattr(tool, "repeatable", False))
        return any(entry.question.call_id == call_id and entry.question.kind != "approval" for entry in self._log.run.questions)

    def _logged_outcome(self, step: str) -> ToolOutcome | None:
        """Return the logged outcome of this attempt's call, or None if it had not finished before the process died."""
        events = reversed(since_start(self._log.run.events, step))
        result = next((event.result for event in events if isinstance(event, ToolFinished) and event.step == step), None)
        return None if result is None else ToolOutcome(not result.is_error, result.parts, error_code=result.error_code)

    def _logged_start(self, step: str) -> ToolCall | None:
        """Return the step's call if its tool was running when the process died, and recall its questions."""
        events = since_refusal(since_start(self._log.run.events, step))
        self._book.recall(events, step)
        if self._log.run.open_step_call(step) is None:
            return None
        return next((event.call for event in events if isinstance(event, ToolStarted) and event.step == step), None)


def _block_failure(tool: Tool, block: Block) -> StepFailure:
    name, code = tool.spec.name, block.result.error_code or DENIED
    verb = "allowed" if code == DENIED else "run"
    advice = advice_on_denial(tool) if block.rule == READ_ONLY else ()
    return StepFailure(f"{name} was not {verb}: {block.reason}", FAILED | {code}, advice, is_final=True)


def _text(tool: Tool, outcome: ToolOutcome) -> str:
    """Return an outcome's text. Raises `StepEndedBadly` if it failed."""
    if not outcome.ok:
        raise StepEndedBadly(_call_failure(tool, outcome))
    return outcome.text


def _call_failure(tool: Tool, outcome: ToolOutcome) -> StepFailure:
    code = outcome.error_code or "tool_error"
    return StepFailure(outcome.problem or outcome.text, FAILED | {code}, is_final=code == "cancelled")


def _output(tool: Tool, call: Call) -> Any:
    """Return the output of a finished call. Raises `StepEndedBadly` if the call failed or was blocked, `Suspended` if it is
    waiting.
    """
    outcome = call.outcome
    if call.block is not None:
        raise StepEndedBadly(_block_failure(tool, call.block))
    if outcome is None:
        raise Suspended("nobody_here")
    if not outcome.ok:
        raise StepEndedBadly(_call_failure(tool, outcome))
    value = outcome.value
    if not isinstance(value, dict | list | int | float):
        return outcome.text
    try:
        return plain_data(value)
    except SettingsError:
        return outcome.text
