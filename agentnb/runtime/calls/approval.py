"""Approval: asks whether a tool call may run, the person or the function that decides in their place."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from agentnb.core.messages import ToolCall, encodable
from agentnb.core.questions import WaitingOnUser, new_question
from agentnb.core.redaction import redact
from agentnb.core.run.approvals import (
    ALWAYS,
    APPROVE,
    ASKED_BY_RULES,
    DENY,
    EDIT,
    NEVER,
    Decision,
    approval_schema,
    decision,
    judged_call,
)
from agentnb.detect.run import Run
from agentnb.errors import Declined, NobodyToAsk, SettingsError
from agentnb.policies.gates import Ask, as_copy
from agentnb.policies.gates.verdicts import AskByRules, AskUnsettled
from agentnb.policies.permissions.approval_mode import declared_effects
from agentnb.policies.permissions.offered_grants import grants_about
from agentnb.runtime.calls.file_change import file_change, file_digest, holds_known_key
from agentnb.runtime.questions.answerers import AnswerQuestion, Approve, Program, QuestionSuspended, Unanswered
from agentnb.runtime.questions.elicitation import Elicitation
from agentnb.runtime.workers.worker_calls import call_in_thread
from agentnb.tools.subject import kind_of_subject, origin_of, value_of_subject
from agentnb.tools.tool import CallSync, Tool

OWN_RULE = "approval"
"""The rule of questions of gates that name none."""
KEEPS_CHANGING = "The file changes each time before there is an answer."
CHANGED_SINCE = "The file has changed since you were asked."
KEY_FILE = "The change is not shown, as the name of the file says that it may hold keys."
NOT_ALLOWED = "The person did not allow it."
NOBODY = "It needs the person's permission, and there is nobody to ask: no person is attached to this run."
NEVER_ASKED = f"It needs the person's permission, and this run asks for none (approve={NEVER})."
NOT_OBTAINED = "It needs the person's permission, which could not be obtained: what decides for them failed."


def approval_question(
    ask: Ask, call: ToolCall, tool: Tool, work_dir: Path, *, has_session: bool = False, keeps_files: bool = False
) -> WaitingOnUser:
    """Return the question of a gate about a call of this tool. ``has_session``: whether a session can remember a grant.

    ``keeps_files``: whether files are kept as they are before calls change them.
    """
    effects = ", ".join(sorted(declared_effects(tool) or ()))
    is_of_rules = isinstance(ask, AskByRules)
    may_remember = isinstance(ask, AskByRules) and not ask.is_unclear
    settles = isinstance(ask, AskUnsettled)
    grants = grants_about(call, tool, work_dir, has_session=has_session, settles=settles) if may_remember else ()
    command = (value_of_subject(tool, call.arguments) or "") if kind_of_subject(tool) == "command" else ""
    change = file_change(tool, call.arguments, work_dir)
    shown = {"command": encodable(command), "diff": encodable(change.diff), "before": change.before, "grants": grants}
    rule = OWN_RULE if ask.rule == ASKED_BY_RULES and not is_of_rules else ask.rule or OWN_RULE
    cannot_undo = keeps_files and holds_known_key(tool, call.arguments, work_dir)
    about = judged_call(call, rule, effects, cannot_undo=cannot_undo, origin=origin_of(tool), **shown)
    approvals = (*ask.approvals, *((ALWAYS,) if grants else ()))
    schema = approval_schema(approvals, tool.spec.input_schema, about.grants)
    message = f"{ask.question}\n{KEY_FILE}" if change.may_hold_keys else ask.question
    return new_question("approval", message, schema, call.id, about)


def is_outdated(question: WaitingOnUser, call: ToolCall, tool: Tool | None, work_dir: Path) -> bool:
    """Return whether the file that the call writes has changed since the question showed the change."""
    shown = "" if question.about is None else question.about.before
    return bool(shown) and shown != file_digest(tool, call.arguments, work_dir)


def is_of_this_tool(question: WaitingOnUser, tool: Tool | None) -> bool:
    """Return whether a question of an earlier process was about the tool as it is: one of an MCP server may have changed."""
    before, now = None if question.about is None else question.about.origin, origin_of(tool)
    return before is None or now is None or redact(now).identities == before.identities


def asked_anew(
    question: WaitingOnUser, call: ToolCall, tool: Tool, work_dir: Path, *, keeps_files: bool = False
) -> WaitingOnUser:
    """Return the question with the change of the file as it would be now."""
    change = file_change(tool, call.arguments, work_dir)
    cannot_undo = keeps_files and holds_known_key(tool, call.arguments, work_dir)
    shown = {"diff": redact(encodable(change.diff)), "before": change.before, "cannot_undo": cannot_undo}
    about = question.about and replace(question.about, **shown)
    return replace(question, message=f"{CHANGED_SINCE}\n{question.message}", about=about, id="")


def _with_rule(reason: str, question: WaitingOnUser) -> str:
    """Return why a call is denied where nobody is asked, with the narrow rule that allows it if the question offers one."""
    about = question.about
    rule = next((grant.rule for grant in about.grants if grant.rule != about.tool), "") if about else ""
    return f"{reason} A rule that allows it: {rule}" if "(" in rule else reason


def answering(answer: AnswerQuestion) -> Program:
    """Return the program for a function that answers questions."""

    async def program(question: WaitingOnUser) -> Any:
        # In a thread of its own: the main thread may be in the tool that asks.
        value = await _result(answer, question, call_plain=call_in_thread)
        if value is None:
            raise Declined("There is no answer")
        return value

    return program


async def _result(function: Callable[..., Any], *args: Any, call_plain: Callable[[Callable[[], Any]], Awaitable[Any]]) -> Any:
    """Return the result of a function of the person's own, which may be async. ``call_plain`` calls one that is not."""
    if any(map(inspect.iscoroutinefunction, (function, type(function).__call__))):
        return await function(*args)
    value = await call_plain(partial(function, *args))
    return await value if inspect.isawaitable(value) else value


class Approval:
    """Asks for permission to run calls. Without anybody to ask, the answer is no."""

    def __init__(self, run: Run, elicitation: Elicitation, call_sync: CallSync) -> None:
        self._run = run
        self._elicitation = elicitation
        self._call_sync = call_sync

    async def ask(self, call: ToolCall, question: WaitingOnUser, *, suspends: bool = False) -> Decision | None:
        """Return the decision about this call; one that nobody makes is a denial that says why.

        It is None, and the question stays open, if the run is being suspended; with ``suspends`` also without anybody to ask.
        """
        book = self._elicitation.book
        if self._elicitation.permissions.mode.never_asks:
            earlier = book.expected(question)
            if earlier is None or not earlier.has_answer:
                book.drop_permission(call.id)
                return Decision(False, _with_rule(NEVER_ASKED, question))
        program: Program | None = partial(self._decided, call) if any(self._elicitation.approvers) else None
        asker = self._elicitation.asker(call.id)
        try:
            made = decision(await asker.ask_question(question, program, may_wait=suspends))
        except NobodyToAsk:
            return Decision(False, _with_rule(NOBODY, question))
        except QuestionSuspended:
            return None
        except Unanswered:
            return Decision(False, NOT_OBTAINED)
        except Declined:
            made = Decision(False)
        finally:
            asker.close()
        if made.approved:
            return made
        return Decision(False, f"{NOT_ALLOWED} They said: {made.reason}" if made.reason else NOT_ALLOWED)

    async def _decided(self, call: ToolCall, _: WaitingOnUser) -> Any:
        """Return what the functions decide, the innermost first, as the answer of a person; None leaves it to the person.

        That of a nested run can only deny: the outermost run's function approves, or else the person does.
        """
        outermost, *inner = self._elicitation.approvers
        for approve in filter(None, inner[::-1]):
            made = await self._decided_by(approve, call)
            if made == DENY or (isinstance(made, dict) and DENY in made):
                return made
        return None if outermost is None else await self._decided_by(outermost, call)

    async def _decided_by(self, approve: Approve, call: ToolCall) -> Any:
        value = await _result(approve, as_copy(call), self._run, call_plain=lambda plain: self._call_sync(plain, False))
        if value is None or isinstance(value, bool):
            return {None: None, True: APPROVE, False: DENY}[value]
        if isinstance(value, str | dict):
            if value in (APPROVE, DENY):  # the words in which a person answers
                return value
            return {DENY: value} if isinstance(value, str) else {EDIT: value}
        hint = "Return True, False, a reason, other arguments as a dict, or None to leave it to the person"
        raise SettingsError(f"approve returned {value!r}", hint)
