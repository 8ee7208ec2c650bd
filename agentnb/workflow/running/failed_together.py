"""The steps that made a run fail: the first failure, and parallel steps that failed before they were cancelled."""

from __future__ import annotations

from collections.abc import Iterator

from agentnb.core.log import work_events as w
from agentnb.core.run.step_outputs import BLOCKS
from agentnb.core.run.work_records import StepRecord
from agentnb.detect.run import Run
from agentnb.errors import WorkflowError


def failed_together(run: Run) -> tuple[StepRecord, ...]:
    """Return the records of the steps that made the run fail, earliest first. A block is replaced by its failed steps.

    Empty for a run that failed for another reason, such as its loop limit.
    """
    last = next((event for event in reversed(run.events) if isinstance(event, w.StepFinished)), None)
    if run.stop_reason != "step_failed" or last is None or last.status != "failed":
        return ()
    failed = sorted(_failures(run, last), key=lambda event: event.seq)
    return tuple([run.step_records[event.step] for event in failed])


def _failures(run: Run, ended: w.StepFinished) -> Iterator[w.StepFinished]:
    """Yield the end events of the failed steps within a step or, if no inner step failed, the end event of the step itself."""
    inner: list[w.StepFinished] = []
    if run.step_records[ended.step].kind in BLOCKS:
        for event in reversed(run.events[: ended.seq]):
            if isinstance(event, w.StepStarted) and event.step == ended.step:
                break  # earlier failures belong to another attempt
            if isinstance(event, w.StepFinished) and run.step_records[event.step].parent == ended.step:
                inner.append(event)
    failures = [failure for event in inner if event.status != "completed" for failure in _failures(run, event)]
    yield from failures or ([ended] if ended.status == "failed" else [])


def raise_if_failed(run: Run) -> Run:
    """Return the run, or raise `WorkflowError` with the records of its failed steps."""
    if run.status != "failed" or run.error is None:
        return run
    error = WorkflowError(run.error.message, run.error.advice, run=run)
    error.others = failed_together(run)[1:]
    raise error
