"""The answer to a blank message in a context: a question back, without a model and without a round."""

from __future__ import annotations

from agentnb.core.log.event import RoundStatus
from agentnb.core.log.work_events import ModelCalled, ReplyGiven
from agentnb.core.messages import Message, Text
from agentnb.core.usage import NOTHING_USED
from agentnb.errors import AgentnbError
from agentnb.guidance.prompts import prompt
from agentnb.policies.verdict import Stop
from agentnb.runtime.event_log import EventLog

CLARIFY = "clarify_blank"
"""The stop reason of such a run, and the operation of its row in the table of usage."""


class Clarification:
    """Orchestrator of a run whose message is blank."""

    where = "agentnb"

    def __init__(self, log: EventLog, profile: str) -> None:
        self._log, self._profile = log, profile

    def raises(self, error: AgentnbError) -> bool:
        """Return True: there is nothing to look at but the error."""
        return True

    async def work(self) -> Stop:
        """Ask what is wanted, and end."""
        if not self._log.run.model_calls:  # else it was resumed
            self._log.emit(ModelCalled, operation=CLARIFY, profile=self._profile, usage=NOTHING_USED)
        if not self._log.run.text:
            self._log.emit(ReplyGiven, message=Message("assistant", (Text(prompt("clarification")),)))
        return Stop(CLARIFY)

    async def final_answer(self, limit: Stop) -> None:
        """Do nothing: no limit holds."""

    def close_open(self, status: RoundStatus) -> None:
        """Do nothing: nothing is open."""

    def suspend(self, why: str) -> None:
        """Do nothing: nothing waits."""
