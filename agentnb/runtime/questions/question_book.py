"""A run's questions: those in its log, and the answers supplied when the run was resumed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeAlias

from msgspec.structs import replace

from agentnb.core.log.events import (
    AnyEvent,
    Event,
    QuestionAnswered,
    QuestionAsked,
    RoundStarted,
    ToolAdmitted,
    ToolStarted,
)
from agentnb.core.log.work_events import GrantGiven, StepStarted
from agentnb.core.questions import BY_AGENT, Answer, AskedQuestion, WaitingOnUser, answer_of
from agentnb.core.run.approvals import given_grant, judged_call
from agentnb.core.run.facts import RunFacts
from agentnb.errors import StoreError
from agentnb.runtime.event_log import EventLog
from agentnb.runtime.questions.grants import ReachingGrants, SessionGrant, check_saving
from agentnb.runtime.questions.model_code import giver
from agentnb.runtime.questions.question_ids import QuestionIds

_Asker: TypeAlias = tuple[str, bool]
"""Id of a tool call or path of a step, and whether a gate is asking about it."""


class QuestionBook:
    """The questions of one run.

    A question that is asked again after a suspension or the death of a process is matched by its asker (tool call or
    step) and purpose, in the original order. New calls and steps match nothing.
    """

    def __init__(self, log: EventLog, ids: QuestionIds, grants: ReachingGrants | None = None) -> None:
        """``grants``: receives grants that reach beyond the run."""
        self._log = log
        self._grants = grants
        self.ids = ids
        self.handed_in: dict[str, Answer] = {}
        """Answers to an earlier process's questions that no call or step has taken yet, by question id."""
        self.earlier: dict[_Asker, list[AskedQuestion]] = {}
        """Questions of an earlier process that have not been asked again yet, by asker."""
        self._by_kind: tuple[str, ...] = ()
        """Steps that ask one question of each kind, whatever its wording."""
        self._failure: StoreError | None = None

    def check(self) -> None:
        """Raise the `StoreError` of a question that could not be logged, since the tool that asked may have caught it."""
        if self._failure is not None:
            raise self._failure

    def is_open(self, question_id: str) -> bool:
        """Return whether this question is open in the log."""
        return self._open_question(question_id) is not None

    def _open_question(self, question_id: str) -> WaitingOnUser | None:
        return next((question for question in self._log.run.waiting if question.id == question_id), None)

    def keep(self, question: WaitingOnUser) -> None:
        """Log the question as open, unless it already is."""
        self.ids.note(question.id)
        if not self.is_open(question.id):
            self.emit(QuestionAsked, question=question)

    def answer(self, answer: Answer) -> None:
        """Log the answer to an open question, and the grant if it allows further calls too. An external agent keeps its own
        grants.
        """
        question_id, by = answer.question_id, answer.by
        question = self._open_question(question_id)
        fields = {"answer": answer.value, "declined": answer.declined, "by": by, "cancelled": answer.cancelled}
        self.emit(QuestionAnswered, question_id=question_id, **fields)
        allowance = None if question is None else given_grant(question, answer.value)
        if allowance is not None and allowance.reach != BY_AGENT and question is not None and question.about is not None:
            tool = question.about.tool
            rule = allowance.rule if allowance.rule != tool else ""
            origin = question.about.origin
            identities = (origin.server_identity, origin.tool_identity) if origin is not None else ("", "")
            grant = SessionGrant(tool, rule, answer.granted_by or by, *identities)
            if allowance.reach == "project" and not self.ids.is_own(question_id):
                return  # of a nested run, which saves it
            taken = "" if self._grants is None else self._grants.take(grant, allowance.reach, question.about)
            place = {"grant_id": taken or question_id, "reach": "session" if taken else "run"}
            self.emit(GrantGiven, question_id=question_id, **place, **grant._asdict())

    def withdraw(self, question_id: str) -> None:
        """Withdraw a question that is open in the log; no-op for others."""
        if self.is_open(question_id):
            self.emit(QuestionAnswered, question_id=question_id, withdrawn=True)

    def emit(self, kind: type[Event], **fields: Any) -> None:
        """Log an event; a failure is kept for `check`."""
        try:
            self._log.emit(kind, **fields)
        except StoreError as error:
            self._failure = error
            raise

    def hand_in(self, answers: Mapping[str, Any]) -> None:
        """Store answers to questions that the run asked before it was suspended, or its process died.

        Raises `SettingsError` if a model's code saves a rule with one of them.
        """
        for question_id, value in answers.items():
            check_saving(self._open_question(question_id), value)
        self.handed_in = {
            question_id: answer_of(question_id, value)._replace(granted_by=giver()) for question_id, value in answers.items()
        }

    def recall(self, events: Iterable[AnyEvent], place: str = "", *, by_kind: bool = False) -> None:
        """Expect the questions in these events to be asked again.

        ``place``: only those of this call or step; ``by_kind``: whether it asks one question of each kind, whatever
        its wording.
        """
        if by_kind:
            self._by_kind = (*self._by_kind, place)
        asked = {record.question.id: record for record in self._log.run.questions}
        admitted: dict[str, ToolAdmitted] = {}
        for event in events:
            if isinstance(event, ToolAdmitted):
                admitted[event.call.id] = event
            elif isinstance(event, ToolStarted):
                admitted.pop(event.call.id, None)
            elif isinstance(event, QuestionAsked) and place in ("", event.question.call_id):
                self._expect(asked[event.question.id], admitted.get(event.question.call_id))

    def _expect(self, asked: AskedQuestion, admitted: ToolAdmitted | None) -> None:
        question = asked.question
        if not self.ids.is_own(question.id):
            return
        if question.kind == "approval" and question.about is None and admitted is not None:  # of an early version
            asked = replace(asked, question=replace(question, about=judged_call(admitted.call, admitted.reason)))
        expected = self.earlier.setdefault(_asker(asked.question), [])
        # A question that was open when its process died may have been asked again by the next process.
        positions = [at for at, past in enumerate(expected) if not past.has_answer and self._is_same(past, asked.question)]
        position = positions[0] if positions else len(expected)
        expected[position : position + 1] = [asked]

    def permission_of(self, call_id: str) -> WaitingOnUser | None:
        """Return the approval question that an earlier process asked about a call, if there is one."""
        expected = self.earlier.get((call_id, True))
        return expected[0].question if expected else None

    def find_expected(self, question: WaitingOnUser) -> AskedQuestion | None:
        """Return the same question from an earlier process, if the asker is expected to ask it next."""
        remaining = self.earlier.get(_asker(question))
        return remaining[0] if remaining and self._is_same(remaining[0], question) else None

    def skip_to(self, question: WaitingOnUser) -> None:
        """Expect this question next from its asker, if an earlier process asked it; questions skipped are withdrawn."""
        earlier = self.earlier.get(_asker(question), [])
        position = next((index for index, asked in enumerate(earlier) if self._is_same(asked, question)), 0)
        for asked in earlier[:position]:
            self.withdraw(asked.question.id)
        del earlier[:position]

    def take(self, question: WaitingOnUser) -> AskedQuestion | None:
        """Return the same question of an earlier process. After a mismatch, all further questions from its asker are new."""
        earlier = self.find_expected(question)
        if earlier is None:
            self._drop(_asker(question))
        else:
            del self.earlier[_asker(question)][0]
        return earlier

    def drop(self, place: str) -> None:
        """Expect no further questions from a call or step; any that are open are withdrawn."""
        self.drop_permission(place)
        self._drop((place, False))

    def drop_permission(self, call_id: str) -> None:
        """Expect no further approval question about a call; if one is open, it is withdrawn."""
        self._drop((call_id, True))

    def _drop(self, asker: _Asker) -> None:
        for asked in self.earlier.pop(asker, ()):
            self.withdraw(asked.question.id)

    def _is_same(self, asked: AskedQuestion, question: WaitingOnUser) -> bool:
        """Return whether two questions of one asker have the same purpose.

        A gate asks one question about the call, identified by its rule and the effects of its tool, whatever the
        wording. A tool may ask several questions, which differ only in wording.
        """
        before = asked.question
        if question.about is not None:
            return question.about.is_same(before.about)
        if (before.kind, before.schema) != (question.kind, question.schema):
            return False
        return question.call_id in self._by_kind or before.message == question.message

    def answers_for(self, waiting: Iterable[WaitingOnUser]) -> dict[str, Any]:
        """Return the answers to a nested run's open questions, and log them here; the questions have the same ids in
        both logs.
        """
        available = {record.question.id: record.as_answer() for record in self._log.run.questions if record.has_answer}
        available |= self.handed_in
        answers = [available[question.id] for question in waiting if question.id in available]
        for answer in answers:
            if self.is_open(answer.question_id):
                self.answer(answer)
        return {answer.question_id: answer.no_answer or answer.value for answer in answers}

    def share(self, nested: RunFacts, place: str) -> None:
        """Mirror a nested run's questions in this log: answers, withdrawals and, if it is suspended, open questions.
        ``place``: its step.
        """
        own = [question.id for question in self._log.run.waiting if question.call_id == place]
        for asked in nested.questions:
            if asked.question.id in own and asked.has_answer:
                self.answer(asked.as_answer())
            elif asked.question.id in own and asked.outcome == "withdrawn":
                self.withdraw(asked.question.id)
        for question in nested.waiting if nested.is_suspended else ():
            self.keep(replace(question, call_id=place))


def _asker(question: WaitingOnUser) -> _Asker:
    return question.call_id, question.about is not None


def since_start(events: Sequence[AnyEvent], step: str = "") -> list[AnyEvent]:
    """Return the events of the last round, or of the last attempt at a step."""
    since: list[AnyEvent] = []
    for event in reversed(events):
        if isinstance(event, StepStarted) and event.step == step if step else isinstance(event, RoundStarted):
            break
        since.append(event)
    return since[::-1]


def asked_by_tools(run: RunFacts, events: Iterable[AnyEvent]) -> dict[str, list[AskedQuestion]]:
    """Return the questions that tools asked while they ran, by call id, in order; those of gates are excluded.

    ``events``: those of the open round. Questions of a nested call also count for the enclosing calls.
    """
    parents: dict[str, str] = {}
    started: set[str] = set()
    by_call: dict[str, list[AskedQuestion]] = {}
    current = run.open_round
    asked = {record.question.id: record for record in run.questions_of(current.index)} if current is not None else {}
    for event in events:
        if isinstance(event, ToolAdmitted | ToolStarted):
            parents[event.call.id] = event.parent_call
            if isinstance(event, ToolStarted):
                started.add(event.call.id)
        elif isinstance(event, QuestionAsked) and event.question.id in asked:
            call_id = event.question.call_id
            while call_id:
                if call_id in started:
                    by_call.setdefault(call_id, []).append(asked[event.question.id])
                call_id = parents.get(call_id, "")
    return by_call
