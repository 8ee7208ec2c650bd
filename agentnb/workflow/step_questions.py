"""Questions of steps to the person, which may wait for days: the answer may come when the run has been resumed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from agentnb.core import work_events as w
from agentnb.core.events import QuestionAsked
from agentnb.core.questions import AskedQuestion, QuestionKind
from agentnb.errors import NobodyToAsk
from agentnb.runtime.answerers import LeftOpen
from agentnb.runtime.attempt import Attempt
from agentnb.runtime.event_log import EventLog
from agentnb.runtime.run_end import Suspended
from agentnb.runtime.step_runner import StepRunner


class StepQuestions:
    """Asks the person for the steps of one run."""

    def __init__(self, steps: StepRunner) -> None:
        self._steps = steps

    async def ask(self, attempt: Attempt, question: str, schema: dict[str, Any], kind: QuestionKind = "human_step") -> Any:
        """Return the answer, also one that the process that died had taken; raise `Declined` if there is none.

        Where nobody is here to answer, the run is suspended with the question open, if it can be; else raises `NobodyToAsk`.
        """
        earlier = None if attempt.is_new else self._asked_before(attempt.place.path, kind)
        if earlier is not None and earlier.outcome == "answered":
            return earlier.answer
        known = "" if earlier is None else earlier.question.id
        is_open = earlier is not None and earlier.outcome == "open"
        asked_as = known if is_open or self._steps.elicitation.has_answer(known) else ""
        may_wait = self._steps.elicitation.suspends or bool(asked_as)
        with self._steps.nested.asker(attempt) as asker:
            try:
                return await asker.ask_before(question, schema, None, asked_as, kind, may_wait=may_wait)
            except LeftOpen:
                raise Suspended("nobody_here") from None
            except NobodyToAsk:
                if not may_wait:
                    raise  # a run that waited for this answer goes on waiting
                asker.leave_open(question, schema, asked_as, kind)
                raise Suspended("nobody_here") from None

    def _asked_before(self, path: str, kind: QuestionKind) -> AskedQuestion | None:
        return next((one for one in asked_before(self._steps.log, path) if one.question.kind == kind), None)


def asked_before(log: EventLog, path: str) -> Iterator[AskedQuestion]:
    """Yield what was asked in the last attempt at a step, in a process that died or was suspended, the newest first.

    That includes what its tool asked, and the runs that this began.
    """
    for event in reversed(log.run.events):
        if isinstance(event, w.StepStarted) and event.step == path:
            return
        if isinstance(event, QuestionAsked) and event.question.call_id == path:
            yield next(one for one in log.run.questions if one.question.id == event.question.id)
