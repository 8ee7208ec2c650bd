"""Detectors that ask a model. They run between rounds, and each of their calls is a separate operation in the log."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import structs

from agentnb.context.side_question import side_question
from agentnb.core.log.work_events import FindingMade
from agentnb.core.messages import encodable
from agentnb.detect.custom import FunctionDetector, findings_of
from agentnb.errors import StoreError
from agentnb.runtime.event_log import EventLog
from agentnb.runtime.replies.model_calls import ModelCalls
from agentnb.runtime.replies.side_calls import call_aside

OPERATION = "detector"


class AskedDetectors:
    """A run's detectors that ask its model."""

    def __init__(self, detectors: Iterable[FunctionDetector], calls: ModelCalls, log: EventLog) -> None:
        self._detectors, self._calls, self._log = tuple(detectors), calls, log

    async def look(self) -> None:
        """Run each detector on the run so far, and log its findings. A detector that fails is dropped with a warning."""
        run = self._log.run
        for detector in self._detectors:
            try:
                findings = findings_of(await detector.function(run, self.ask), detector, run.last_round.index)
            except StoreError:
                raise
            except Exception as error:
                if self._calls.is_cancelled(error):
                    raise
                self._detectors = tuple([kept for kept in self._detectors if kept is not detector])
                failure = encodable(f"{detector.name} failed and was dropped ({type(error).__name__}: {error})")
                self._log.warn(f"The detector {failure}")
                continue
            for finding in findings:
                self._log.emit(FindingMade, **structs.asdict(finding))

    async def ask(self, text: str, *, system: str = "") -> str:
        """Return an answer from the run's model, outside the conversation. Raises `ModelError` if the model gives none."""
        reply = await call_aside(self._calls, side_question(text, system), OPERATION, self._log)
        return reply.message.text
