"""Detectors that ask a model: they run between rounds, and each of their calls is an operation of its own in the log."""

from __future__ import annotations

from collections.abc import Iterable
from time import perf_counter

from msgspec import structs

from agentnb.context.side_question import side_question
from agentnb.core.log.events import Warned
from agentnb.core.log.work_events import FindingMade, ModelCalled
from agentnb.core.messages import encodable
from agentnb.core.usage import NOTHING_USED
from agentnb.detect.custom import FunctionDetector, findings_of
from agentnb.errors import ModelError, StoreError
from agentnb.models.model import Reply
from agentnb.runtime.event_log import EventLog
from agentnb.runtime.replies.model_calls import ModelCalls

OPERATION = "detector"


class AskedDetectors:
    """The detectors of one run that ask its model."""

    def __init__(self, detectors: Iterable[FunctionDetector], calls: ModelCalls, log: EventLog) -> None:
        self._detectors, self._calls, self._log = tuple(detectors), calls, log

    async def look(self) -> None:
        """Run each detector on the run so far, and log what it finds. One that fails is dropped with a warning."""
        run = self._log.run
        for one in self._detectors:
            try:
                found = findings_of(await one.function(run, self.ask), one, run.last_round.index)
            except StoreError:
                raise
            except Exception as error:
                if self._calls.is_cancelled(error):
                    raise
                self._detectors = tuple([each for each in self._detectors if each is not one])
                what = encodable(f"{one.name} failed and was dropped ({type(error).__name__}: {error})")
                self._log.emit(Warned, message=f"The detector {what}")
                continue
            for finding in found:
                self._log.emit(FindingMade, **structs.asdict(finding))

    async def ask(self, text: str, *, system: str = "") -> str:
        """Return what the run's model answers, outside the conversation. Raises `ModelError` if no answer comes."""
        started, usage, problem = perf_counter(), NOTHING_USED, ""
        reply: Reply | None = None
        try:
            async for item in self._calls.side_request(side_question(text, system)):
                if isinstance(item, Reply):
                    reply, usage = item, item.usage
        except BaseException as error:
            problem = encodable(f"{type(error).__name__}: {error}")
            raise
        finally:
            name, seconds = self._calls.model.name, perf_counter() - started
            self._log.emit(ModelCalled, operation=OPERATION, model=name, usage=usage, seconds=seconds, error=problem)
        if reply is None:
            raise ModelError(f"{self._calls.model.name} gave a detector no answer")
        return reply.message.text
