"""Questions from steps to the person; they may stay open for days, until the run is resumed with the answer."""

from __future__ import annotations

from typing import Any

from agentnb.core.messages import ToolCall
from agentnb.core.questions import QuestionKind, new_question
from agentnb.core.run.approvals import judged_call
from agentnb.errors import Declined, NobodyToAsk
from agentnb.runtime.questions.answerers import QuestionSuspended
from agentnb.runtime.questions.question_book import since_start
from agentnb.runtime.run_end import Suspended
from agentnb.runtime.steps.attempt import Attempt
from agentnb.runtime.steps.step_runner import StepRunner

HOW_TO_ANSWER = (
    'Run it with answer=FUNCTION, or with store=Store(".agentnb/runs") and suspend=True, and later recover(run, answers=...)'
)


class StepQuestions:
    """Asks the person on behalf of a run's steps."""

    def __init__(self, steps: StepRunner) -> None:
        self._steps = steps

    async def ask(
        self,
        attempt: Attempt,
        question: str,
        schema: dict[str, Any],
        kind: QuestionKind = "human_step",
        call: ToolCall | None = None,
    ) -> Any:
        """Return the answer, possibly one received by a process that died. Raises `Declined` if the person declines.

        ``call``: the call whose missing arguments are requested.

        If nobody can answer, suspends the run with the question open if the run allows it, and always for a plan's question;
        otherwise raises `NobodyToAsk`.
        """
        elicitation, path = self._steps.elicitation, attempt.place.path
        caller = None if call is None else judged_call(call, "")
        book, new = elicitation.book, new_question(kind, question, schema, path, asked_by=path, caller=caller)
        book.drop(path)
        if not attempt.is_new:
            book.recall(since_start(self._steps.log.run.events, path), path, by_kind=True)
        earlier = book.find_expected(new)
        # A run that already waited for this answer keeps waiting.
        waits = earlier is not None and (earlier.outcome == "open" or earlier.question.id in book.handed_in)
        # A model writes the plan: the caller of its planner cannot foresee its questions or supply answers.
        waits |= kind == "elicitation" and elicitation.around is None
        with self._steps.nested.asker(attempt) as asker:
            try:
                return await asker.ask_question(new, may_wait=elicitation.suspends or waits)
            except QuestionSuspended:
                if self._steps.log.store is None:
                    self._steps.log.warn_once("This run has no store, so it cannot be continued with an answer", HOW_TO_ANSWER)
                raise Suspended("nobody_here") from None
            except NobodyToAsk as error:
                raise NobodyToAsk(error.what, HOW_TO_ANSWER) from None
            except Declined as error:  # without its advice, which is for models
                raise type(error)(error.what) from None
