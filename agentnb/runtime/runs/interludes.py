"""Interludes of an agent's run: what extensions do between rounds, with the services of a call and questions to the person."""

from __future__ import annotations

from functools import partial
from itertools import takewhile
from typing import Any

from agentnb.core.log.events import AnyEvent, RoundFinished
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


class Interludes:
    """The interludes of one run."""

    def __init__(self, lifecycle: Lifecycle, dispatch: Dispatch) -> None:
        self._lifecycle = lifecycle
        self._elicitation = lifecycle.services.elicitation
        self._dispatch = dispatch

    async def run(self, interlude: Interlude) -> None:
        """Do its work. Raises `Suspended` where it waits for an answer that nobody gives."""
        if self._lifecycle.inbox.has_news:
            await self._lifecycle.read_inbox()
        with self._elicitation.asker(interlude.place) as asker:
            self._elicitation.book.recall(self._since_change(), asker.call_id)
            try:
                await interlude.work(self._dispatch.services(), partial(self._ask, asker))
            finally:
                self._lifecycle.settle()
        self._lifecycle.check_stop()

    async def _ask(self, asker: CallElicitor, question: WaitingOnUser) -> Any:
        """Ask a question, or the same one of an earlier process again; see `AskBetween`."""
        try:
            return await self._lifecycle.hear_while(asker.ask_question(question, may_wait=True))
        except QuestionSuspended:
            raise Suspended(self._dispatch.suspending or "nobody_here") from None
        except QuestionCancelled:  # the person will decide later
            raise Suspended("asked") from None
        except Unanswered:
            raise Suspended("nobody_here") from None
        except Declined:
            return NoAnswer.DECLINE

    def _since_change(self) -> list[AnyEvent]:
        """Return the events since the last round or the last change of a plan: the questions among them may be asked again."""
        since = takewhile(lambda event: not isinstance(event, _CHANGES), reversed(self._lifecycle.log.run.events))
        return [*since][::-1]

    def close_open(self) -> None:
        """Withdraw what no process asks any more: the run ends."""
        for question in self._lifecycle.log.run.waiting:
            if question.kind == "plan_review":
                self._elicitation.withdraw(question.id)
                self._elicitation.book.withdraw(question.id)
