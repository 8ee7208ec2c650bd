"""Interludes of an agent's run: work that extensions do between rounds, using the services of a call and asking the person."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from itertools import takewhile
from typing import Any

from msgspec.structs import replace

from agentnb.core.log.events import AnyEvent, QuestionAsked, RoundFinished
from agentnb.core.log.work_events import PlanEdited, PlanProposed
from agentnb.core.questions import NoAnswer, WaitingOnUser
from agentnb.errors import Declined, QuestionCancelled
from agentnb.policies.verdict import Interlude
from agentnb.runtime.calls.dispatch import Dispatch
from agentnb.runtime.questions.answerers import QuestionSuspended, Unanswered
from agentnb.runtime.questions.elicitation import CallElicitor
from agentnb.runtime.run_end import Suspended
from agentnb.runtime.runs.lifecycle import Lifecycle

_CHANGES = (RoundFinished, PlanEdited, PlanProposed)
MAX_ANSWERS = 20
"""Maximum number of answers, between two rounds, from a function in the person's place; after that, the person is asked."""


class Interludes:
    """The interludes of one run."""

    def __init__(self, lifecycle: Lifecycle, dispatch: Dispatch) -> None:
        self._lifecycle = lifecycle
        self._elicitation = lifecycle.context.elicitation
        self._dispatch = dispatch

    async def run(self, interlude: Interlude) -> None:
        """Run an interlude. Raises `Suspended` if nobody gives an answer that it needs."""
        if self._lifecycle.inbox.has_news:
            await self._lifecycle.read_inbox()
            if self._lifecycle.log.run.pending:  # the model reads that first
                return
        with CallElicitor(self._elicitation, interlude.place) as asker:
            self._elicitation.book.recall(self._since_change(interlude.place), interlude.place)
            try:
                await interlude.work(self._dispatch.services(), partial(self._ask, asker))
            finally:
                self._lifecycle.settle()
        self._lifecycle.check_stop()

    async def _ask(self, asker: CallElicitor, question: WaitingOnUser) -> Any:
        """Ask a question, either new or from an earlier process; see `AskBetween`."""
        self._elicitation.book.skip_to(question)
        if self._program_repeats(question):
            self._lifecycle.log.warn_once(f"The function that answers for you made no decision in {MAX_ANSWERS} answers")
            if self._elicitation.book.find_expected(question) is None:
                self._keep_open(question)
            raise Suspended("nobody_here")
        try:
            return await self._lifecycle.hear_while(asker.ask_question(question, may_wait=True))
        except QuestionSuspended:
            raise Suspended(self._dispatch.suspending or "nobody_here") from None
        except Declined as error:
            if not isinstance(error, QuestionCancelled | Unanswered):
                return NoAnswer.DECLINE
            self._keep_open(question)
            raise Suspended("asked" if isinstance(error, QuestionCancelled) else "nobody_here") from None

    def _keep_open(self, question: WaitingOnUser) -> None:
        """Log the question as open: it is deferred and can be answered later."""
        book = self._elicitation.book
        book.keep(replace(question, id=book.ids.new()))

    def _program_repeats(self, question: WaitingOnUser) -> bool:
        """Return whether a function that answers in the person's place has answered too often since the last round."""
        earlier = self._elicitation.book.find_expected(question)
        if self._elicitation.book.handed_in or (earlier is not None and earlier.has_answer):
            return False
        asked = {event.question.id for event in self._since((RoundFinished,)) if isinstance(event, QuestionAsked)}
        questions = [item for item in self._lifecycle.log.run.questions if item.question.call_id == question.call_id]
        answered = [
            item for item in questions if item.outcome == "answered" and item.by == "program" and item.question.id in asked
        ]
        return len(answered) >= MAX_ANSWERS

    def _since_change(self, place: str) -> list[AnyEvent]:
        """Return the events since the last round or the last change of a plan; the questions in them may be asked
        again.

        A question that was deferred is left out if another followed it.
        """
        since = [*self._since(_CHANGES)][::-1]
        asked = [event.question.id for event in since if isinstance(event, QuestionAsked) and event.question.call_id == place]
        records = {record.question.id: record for record in self._lifecycle.log.run.questions}
        put_off = {question_id for question_id in asked[:-1] if records[question_id].as_answer().declined}
        return [event for event in since if not (isinstance(event, QuestionAsked) and event.question.id in put_off)]

    def _since(self, kinds: tuple[type[Any], ...]) -> Iterator[AnyEvent]:
        """Yield the events since the last event of these kinds, newest first."""
        return takewhile(lambda event: not isinstance(event, kinds), reversed(self._lifecycle.log.run.events))

    def close_open(self) -> None:
        """Withdraw questions that no process will ask again, since the run is ending."""
        for question in self._lifecycle.log.run.waiting:
            if question.kind == "plan_review":
                self._elicitation.book.withdraw(question.id)
