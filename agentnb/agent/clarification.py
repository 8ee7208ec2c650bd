"""The answer to a blank message in a context: a question, asked without a model or a round."""

from __future__ import annotations

from agentnb.core.log.event import RoundStatus
from agentnb.core.log.work_events import ModelCalled, ReplyGiven
from agentnb.core.messages import Message, Text
from agentnb.core.run.timeline import CLARIFY_BLANK
from agentnb.core.usage import NOTHING_USED
from agentnb.errors import AgentnbError
from agentnb.guidance.prompts import prompt
from agentnb.policies.verdict import Stop
from agentnb.runtime.event_log import EventLog


class Clarification:
    """Orchestrator of a run whose message is blank."""

    where = "agentnb"

    def __init__(self, log: EventLog, profile: str) -> None:
        self._log, self._profile = log, profile

    def raises(self, error: AgentnbError) -> bool:
        """Return True: the run has nothing to show but the error."""
        return True

    async def work(self) -> Stop:
        """Ask for the person's request, and end."""
        if not self._log.run.model_calls:  # otherwise it was resumed
            self._log.emit(ModelCalled, operation=CLARIFY_BLANK, profile=self._profile, usage=NOTHING_USED)
        if not self._log.run.text:
            self._log.emit(ReplyGiven, message=Message("assistant", (Text(prompt("clarification")),)))
        return Stop(CLARIFY_BLANK)

    async def final_answer(self, limit: Stop) -> None:
        """Do nothing: limits do not apply."""

    def close_open(self, status: RoundStatus) -> None:
        """Do nothing: nothing is open."""

    def suspend(self, why: str) -> None:
        """Do nothing: nothing is waiting."""
