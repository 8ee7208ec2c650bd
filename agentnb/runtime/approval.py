"""Approval: asks whether a tool call may run, the person or the function that decides in their place."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple

from msgspec.structs import replace

from agentnb.core.approvals import APPROVE, DENY, EDIT, NEVER, Decision, approval_schema, decision, judged_call
from agentnb.core.events import AnyEvent, QuestionAnswered, QuestionAsked, ToolAdmitted, ToolStarted
from agentnb.core.messages import ToolCall
from agentnb.core.questions import JudgedCall, WaitingOnUser
from agentnb.detect.run import Run
from agentnb.errors import Declined, NobodyToAsk, SettingsError
from agentnb.policies.gates import Ask, as_copy
from agentnb.policies.gates.approval_mode import declared_effects
from agentnb.runtime.answerers import AnswerQuestion, Approve, LeftOpen, Program, Unanswered
from agentnb.runtime.elicitation import Elicitation
from agentnb.runtime.worker_calls import call_in_thread
from agentnb.tools.tool import CallSync, Tool

NOT_ALLOWED = "The person did not allow it."
NOBODY = "It needs the person's permission, and there is nobody to ask: no person is attached to this run."
NEVER_ASKED = f"It needs the person's permission, and this run asks for none (approve={NEVER})."
NOT_OBTAINED = "It needs the person's permission, which could not be obtained: what decides for them failed."


class Permission(NamedTuple):
    """The question whether a call may run, and what was decided, if that is known from the log."""

    question: str
    rule: str
    schema: dict[str, Any]
    asked_as: str = ""
    """Id of the question, if it was logged before the run was resumed."""
    decision: Decision | None = None
    effects: str = ""
    """The effects that the tool declares."""
    about: JudgedCall | None = None
    """The call that was asked about, if the question is logged."""

    @classmethod
    def of(cls, ask: Ask, tool: Tool | None) -> Permission:
        """Return the question of a gate about a call of this tool."""
        effects = "" if tool is None else ", ".join(sorted(declared_effects(tool) or ()))
        return cls(ask.question, ask.rule or "approval", approval_schema(ask.approvals), effects=effects)

    def is_same(self, other: Permission, call: ToolCall) -> bool:
        """Return whether this logged question is another one about this call: by the whole call, its rule and its tool."""
        about = judged_call(call, other.rule, other.effects)
        return self.about in (about, replace(about, effects=None))


def answering(answer: AnswerQuestion) -> Program:
    """Return the program for a function that answers questions."""

    async def program(question: WaitingOnUser) -> Any:
        if any(map(inspect.iscoroutinefunction, (answer, type(answer).__call__))):
            found = await answer(question)
        else:
            # In a thread of its own: the main thread may be in the tool that asks.
            found = await call_in_thread(partial(answer, question))
            found = await found if inspect.isawaitable(found) else found
        if found is None:
            raise Declined("There is no answer")
        return found

    return program


class Approval:
    """Asks for permission to run calls. Without anybody to ask, the answer is no."""

    def __init__(self, run: Run, elicitation: Elicitation, call_sync: CallSync) -> None:
        self._run = run
        self._elicitation = elicitation
        self._call_sync = call_sync
        self._approve = elicitation.approve

    async def ask(self, call: ToolCall, permission: Permission, *, suspends: bool = False) -> Decision | None:
        """Return the decision about this call; one that nobody makes is a denial that says why.

        It is None, and the question stays open, if the run is being suspended; with ``suspends`` also without anybody to ask.
        """
        found = permission.decision
        if found is None and self._elicitation.approval_mode.never_asks:
            self._elicitation.withdraw_logged(permission.asked_as)
            found = Decision(False, NEVER_ASKED)
        found = found or await self._ask(call, permission, suspends=suspends)
        return None if found is None else _with_words(found)

    async def _ask(self, call: ToolCall, permission: Permission, *, suspends: bool) -> Decision | None:
        program: Program | None = None if self._approve is None else partial(self._decided, self._approve, call)
        asker = self._elicitation.asker(call.id)
        asker.about = judged_call(call, permission.rule, permission.effects)
        question, schema, asked_as = permission.question, permission.schema, permission.asked_as
        try:
            return decision(await asker.ask_before(question, schema, program, asked_as, may_wait=suspends))
        except NobodyToAsk:
            if not suspends:
                return Decision(False, NOBODY)
            asker.leave_open(question, schema, asked_as)
            return None
        except LeftOpen:
            return None
        except Unanswered:
            return Decision(False, NOT_OBTAINED)
        except Declined:
            return Decision(False)
        finally:
            asker.close()

    async def _decided(self, approve: Approve, call: ToolCall, _: WaitingOnUser) -> Any:
        """Return what the function decides, as the answer of a person."""
        call = as_copy(call)
        if any(map(inspect.iscoroutinefunction, (approve, type(approve).__call__))):
            found = await approve(call, self._run)
        else:
            found = await self._call_sync(partial(approve, call, self._run), False)
            found = await found if inspect.isawaitable(found) else found
        if found is None or isinstance(found, bool):
            return {None: None, True: APPROVE, False: DENY}[found]
        if isinstance(found, str | dict):
            if found in (APPROVE, DENY):  # the words in which a person answers
                return found
            return {DENY: found} if isinstance(found, str) else {EDIT: found}
        hint = "Return True, False, a reason, other arguments as a dict, or None to leave it to the person"
        raise SettingsError(f"approve returned {found!r}", hint)


def logged_permissions(events: Sequence[AnyEvent]) -> dict[str, Permission | None]:
    """Return the calls that were judged and had not started, by id, with the question they waited for and its answer.

    ``events``: those of the open round. None stands for a call that waited for no permission. A call whose question had not
    been asked yet is not among them: it must be judged again.
    """
    found: dict[str, Permission | None] = {}
    rules: dict[str, str] = {}
    asked: dict[str, str] = {}
    begun: set[str] = set()
    for event in events:
        if isinstance(event, ToolAdmitted):
            rules[event.call.id] = event.reason
            if not event.reason:
                found[event.call.id] = None
        elif isinstance(event, ToolStarted):
            begun.add(event.call.id)
            rules.pop(event.call.id, None)  # what is asked from now on, the tool asks, or a run that it began
        elif isinstance(event, QuestionAsked) and event.question.kind == "approval":
            one = event.question
            if one.call_id not in found and one.call_id not in begun and one.about is not None:
                rules.setdefault(one.call_id, one.about.rule)  # before schema 6, a step's call was not logged as admitted
            if one.call_id in rules:
                asked[one.id] = one.call_id
                found[one.call_id] = Permission(one.message, rules[one.call_id], one.schema, one.id, about=one.about)
        elif isinstance(event, QuestionAnswered) and event.question_id in asked and not event.withdrawn:
            made = Decision(False) if event.declined else decision(event.answer)
            permission = found[asked[event.question_id]]
            found[asked[event.question_id]] = permission and permission._replace(decision=made)
    return found


def _with_words(found: Decision) -> Decision:
    """Return a denial with the sentence that the model is told."""
    if found.approved or found.reason in (NOBODY, NEVER_ASKED, NOT_OBTAINED):
        return found
    return Decision(False, f"{NOT_ALLOWED} They said: {found.reason}" if found.reason else NOT_ALLOWED)
