"""Whether a step may call a tool: the approval mode of the run, the rules of a task file, and the question to the person."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, TypeAlias

from agentnb.core.approvals import decision, judged_call
from agentnb.core.messages import ToolCall, encodable
from agentnb.core.questions import AskedQuestion, JudgedCall
from agentnb.core.redaction import redact
from agentnb.policies.gates import Ask, Deny
from agentnb.policies.gates.approval_mode import hint_of_denial, shown
from agentnb.runtime.approval import Approval, Permission
from agentnb.runtime.host import plain_tools
from agentnb.runtime.run_end import Suspended
from agentnb.tools.tool import Tool
from agentnb.workflow.engine import Attempt, WorkflowEngine
from agentnb.workflow.nested import NestedRuns
from agentnb.workflow.step_failures import StepEndedBadly, StepFailure
from agentnb.workflow.step_questions import asked_before

DENIED = frozenset({"denied", "tool_error", "failed", "error"})
"""The words for a call that was not allowed."""

Rule: TypeAlias = Callable[[str], Literal["ask", "auto", "deny"]]
"""Returns what the file says of a tool: it may be called, it may not, or the person decides."""


class Permissions:
    """Decides about the calls of the steps of one run: the stricter of the file's rules and the approval mode holds."""

    def __init__(self, engine: WorkflowEngine, runs: NestedRuns, rule: Rule = lambda name: "auto") -> None:
        self._log = engine.log
        self._elicitation = engine.elicitation
        self._runs = runs
        self._rule = rule
        self._approval = Approval(engine.log.run, engine.elicitation, plain_tools(None))

    async def arguments(self, tool: Tool, arguments: dict[str, Any], attempt: Attempt) -> dict[str, Any]:
        """Return the arguments that a tool may be called with: these, or what the person gave instead.

        Raises `StepEndedBadly` if it may not be called. Where nobody is here to ask, the run is suspended, if it can be.
        """
        name = tool.spec.name
        call = ToolCall(name, arguments, attempt.place.path)
        ask = self._question(tool, call)
        if ask is None:
            return arguments
        with self._runs.asker(attempt):
            permission = self._permission(ask, call, attempt)
            found = await self._approval.ask(call, permission, suspends=self._elicitation.suspends)
        if found is None:
            raise Suspended("nobody_here")
        if not found.approved:
            raise _denied(f"{name} was not allowed: {found.reason}")
        return arguments if found.arguments is None else found.arguments

    def _question(self, tool: Tool, call: ToolCall) -> Ask | None:
        """Return the question whether a call may run; None if it may. Raises `StepEndedBadly` if it may not."""
        rule, mode = self._rule(call.name), self._elicitation.approval_mode
        if rule == "deny":
            raise _denied(f"The approval rules of the task file do not allow {call.name}")
        gate = mode.gate(lambda name: tool, self._elicitation.runs[1:])
        verdict = None if gate is None else gate(call, self._log.run)
        if isinstance(verdict, Deny):
            raise _denied(f"{call.name} was not allowed: {verdict.reason}", hint_of_denial(tool))
        if rule == "ask":  # about each call: "always" is no answer
            return Ask(f"May the task {call.id} call {call.name} with {shown(call.arguments)}?")
        return verdict if isinstance(verdict, Ask) else None

    def _permission(self, ask: Ask, call: ToolCall, attempt: Attempt) -> Permission:
        new = Permission.of(ask)
        asked = None if attempt.is_new else self._asked_before(ask, judged_call(call, new.rule), attempt.place.path)
        if asked is None:
            return new
        question = asked.question
        if asked.outcome == "answered":
            return Permission(question.message, ask.rule, question.schema, decision=decision(asked.answer))
        is_known = asked.outcome == "open" or self._elicitation.has_answer(question.id)
        return new._replace(asked_as=question.id if is_known else "")

    def _asked_before(self, ask: Ask, about: JudgedCall, path: str) -> AskedQuestion | None:
        """Return this very question about this very call, if it was asked before the run was resumed.

        What its tool asked, and the runs that this began, decides nothing about it; nor does a question about other arguments,
        which is withdrawn.
        """
        asked = [one for one in asked_before(self._log, path) if one.question.kind == "approval"]
        own = [one for one in asked if self._elicitation.ids.is_own(one.question.id)]
        message = redact(encodable(ask.question))  # as the log has it: it says what the tool may do
        found = next((one for one in own if (one.question.about, one.question.message) == (about, message)), None)
        if found is None:
            for one in own:
                self._elicitation.withdraw_logged(one.question.id)
        return found


def _denied(text: str, hint: str = "") -> StepEndedBadly:
    return StepEndedBadly(StepFailure(text, DENIED, hint, is_final=True))
