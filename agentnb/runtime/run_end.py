"""Log entries and warnings when a run stops."""

from __future__ import annotations

from msgspec import structs

from agentnb.advice import TryDetector, as_advice
from agentnb.core.guidance import Guidance
from agentnb.core.log import events as e
from agentnb.core.log.work_events import FindingMade
from agentnb.core.messages import encodable
from agentnb.core.redaction import change_texts
from agentnb.detect.guidance_rules import SENTENCES, unknown_facts
from agentnb.detect.run import Run
from agentnb.errors import AgentnbError, ModelError, RunLimited, suggest_names
from agentnb.policies.verdict import Stop
from agentnb.runtime.event_log import EventLog
from agentnb.runtime.failure_place import place_of_verdict
from agentnb.tools.tool_errors import traceback_of_own_code

OF_THE_REPLY = "reply"
"""Value of ``where`` for an error that is a verdict on the reply: a resumed run reaches the same verdict from the
same rounds.
"""


class Suspended(Exception):
    """The run waits for an answer without a process: nobody is there, or the person has postponed the question."""

    def __init__(self, why: str) -> None:
        """``why``: ``nobody_here`` or ``asked``."""
        super().__init__(why)
        self.why = why


def log_stop(log: EventLog, verdict: Stop, component: str = "") -> None:
    """Log why the run stops, except for entries already logged by a process that died. ``component``: the part of the
    run that was working.
    """
    run, loop = log.run, verdict.loop
    _log_unknown_facts(log)
    if loop is not None and not any((finding.rule, finding.last) == (loop.rule, loop.last) for finding in run.loops):
        log.emit(e.LoopDetected, **loop._asdict())
    if verdict.warning:
        log.warn_once(verdict.warning, topic=verdict.topic)
    if verdict.limit is not None and run.limit is None:
        log.emit(e.LimitReached, limit=verdict.stop_reason, value=verdict.limit)
    if verdict.problem and run.error is None:
        error = e.RunError(verdict.stop_reason, verdict.problem, as_advice(verdict.hint))
        log.emit(e.ErrorRaised, error=error, where=OF_THE_REPLY, **place_of_verdict(run, component))


def _log_unknown_facts(log: EventLog) -> None:
    """Warn about guidance that refers to unknown facts, such as misspelled ones: whether it was followed cannot be judged."""
    unknown: dict[str, Guidance] = {}
    for record in log.run.rounds:
        for guidance in record.guidance:
            if guidance.asks or guidance.forbids:
                unknown |= dict.fromkeys(unknown_facts(guidance), guidance)
    for name, guidance in unknown.items():
        problem = f"Guidance {guidance.set}/{guidance.cell} asks for {name!r}, which is not a known fact"
        log.warn_once(encodable(problem), suggest_names(name, SENTENCES))


def log_findings(log: EventLog) -> None:
    """Log new findings of the detectors; those already logged by a process that died are skipped."""
    for detector, error in log.run.take_failures():
        name = getattr(detector, "name", type(detector).__name__)
        failure = encodable(f"{name} failed and was dropped ({type(error).__name__}: {error})")
        log.warn(f"The detector {failure}", (TryDetector(lead="Try it on the run"),))
    for finding in log.run.take_unlogged():
        log.emit(FindingMade, **structs.asdict(finding))


def run_error(error: BaseException) -> e.RunError:
    """Return the error in the form in which it is logged."""
    if isinstance(error, AgentnbError):
        traceback = traceback_of_own_code(error.__cause__) if isinstance(error, ModelError) and error.__cause__ else ""
        return e.RunError(type(error).__name__, encodable(error.what), change_texts(error.advice, encodable), traceback)
    return e.RunError(type(error).__name__, encodable(str(error)) or type(error).__name__)


def check_within_limits(run: Run) -> None:
    """Raise `RunLimited` if the run ended at a limit."""
    if run.status == "limited" and run.limit is not None:
        problem = f"The run reached its limit: {run.limit.limit}, {run.limit.value:g}"
        raise RunLimited(problem, "The run is in error.run; continue it with continue_from=error.run", run=run)
