"""Whether the tools of a task file may be called: its ``approval``, and the question to the person."""

from __future__ import annotations

from typing import Any

import msgspec

from agentnb.core.approvals import approval_schema, decision
from agentnb.core.messages import ToolCall
from agentnb.runtime.approval import Approval, Permission
from agentnb.runtime.elicitation import Elicitation
from agentnb.runtime.event_log import EventLog
from agentnb.runtime.host import plain_tools
from agentnb.runtime.run_end import Suspended
from agentnb.workflow.engine import Attempt
from agentnb.workflow.step_failures import StepEndedBadly, StepFailure
from agentnb.workflow.step_questions import asked_before
from agentnb.workflow.tasks.spec import ApprovalRules

DENIED = frozenset({"denied", "tool_error", "failed", "error"})
"""The words for a call that was not allowed."""
MAX_SHOWN = 300
"""Characters of the arguments that a question shows."""


class Permissions:
    """Decides about the calls of one run."""

    def __init__(self, log: EventLog, elicitation: Elicitation, rules: ApprovalRules) -> None:
        self._log = log
        self._elicitation = elicitation
        self._rules = rules
        self._approval = Approval(log.run, elicitation, plain_tools(None))

    async def arguments(self, name: str, arguments: dict[str, Any], attempt: Attempt) -> dict[str, Any]:
        """Return the arguments that a tool may be called with: these, or what the person gave instead.

        Raises `StepEndedBadly` if it may not be called. Where nobody is here to ask, the run is suspended, if it can be.
        """
        verdict = self._rules.verdict(name)
        if verdict == "auto":
            return arguments
        if verdict == "deny":
            raise _denied(f"The approval rules of the task file do not allow {name}")
        permission = self._permission(name, arguments, attempt)
        call = ToolCall(name, arguments, attempt.place.path)
        found = await self._approval.ask(call, permission, suspends=self._elicitation.suspends)
        if found is None:
            raise Suspended("nobody_here")
        if not found.approved:
            raise _denied(f"{name} was not allowed: {found.reason}")
        return arguments if found.arguments is None else found.arguments

    def _permission(self, name: str, arguments: dict[str, Any], attempt: Attempt) -> Permission:
        asked = None if attempt.is_new else asked_before(self._log, attempt.place.path, "approval")
        if asked is not None and asked.outcome == "answered":
            return Permission(asked.question.message, "approval", asked.question.schema, decision=decision(asked.answer))
        shown = msgspec.json.encode(arguments).decode()
        more = "..." if len(shown) > MAX_SHOWN else ""
        question = f"May the task {attempt.place.path} call {name} with {shown[:MAX_SHOWN]}{more}?"
        known = asked is not None and (asked.outcome == "open" or self._elicitation.has_answer(asked.question.id))
        asked_as = asked.question.id if asked is not None and known else ""
        return Permission(question, "approval", approval_schema(), asked_as)


def _denied(text: str) -> StepEndedBadly:
    return StepEndedBadly(StepFailure(text, DENIED, is_final=True))
