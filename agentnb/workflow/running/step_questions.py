"""Questions of steps to the person, which may wait for days: the answer may come when the run has been resumed."""

from __future__ import annotations

from typing import Any

from agentnb.core.messages import ToolCall
from agentnb.core.questions import QuestionKind, new_question
from agentnb.core.run.approvals import judged_call
from agentnb.errors import NobodyToAsk
from agentnb.runtime.questions.answerers import QuestionSuspended
from agentnb.runtime.questions.question_book import since_start
from agentnb.runtime.run_end import Suspended
from agentnb.runtime.steps.attempt import Attempt
from agentnb.runtime.steps.step_runner import StepRunner

HOW_TO_ANSWER = (
    "Give answer=FUNCTION, or store=Store(FOLDER) with suspend=True: then the run waits for recover(run, answers=...)"
)


class StepQuestions:
    """Asks the person for the steps of one run."""

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
        """Return the answer, also one that the process that died had taken; raise `Declined` if there is none.

        ``call``: the call whose missing arguments are asked for.
        Where nobody is here to answer, the run is suspended with the question open, if it can be; for one that a plan asks,
        always. Else raises `NobodyToAsk`.
        """
        elicitation, path = self._steps.elicitation, attempt.place.path
        caller = None if call is None else judged_call(call, "")
        book, new = elicitation.book, new_question(kind, question, schema, path, asked_by=path, caller=caller)
        book.drop(path)
        if not attempt.is_new:
            book.recall(since_start(self._steps.log.run.events, path), path, by_kind=True)
        earlier = book.expected(new)
        # A run that waited for this answer goes on waiting.
        waits = earlier is not None and (earlier.outcome == "open" or earlier.question.id in book.handed_in)
        # A plan is a model's: who runs its planner cannot know that it asks, nor give what answers.
        waits |= kind == "elicitation" and elicitation.around is None
        with self._steps.nested.asker(attempt) as asker:
            try:
                return await asker.ask_question(new, may_wait=elicitation.suspends or waits)
            except QuestionSuspended:
                if self._steps.log.store is None:
                    self._steps.log.warn_once("No store keeps this run, so no answer can continue it", HOW_TO_ANSWER)
                raise Suspended("nobody_here") from None
            except NobodyToAsk as error:
                raise NobodyToAsk(error.what, HOW_TO_ANSWER) from None
