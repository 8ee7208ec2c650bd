"""Records of the steps, their tool calls and the plans of a run."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Any

import msgspec
from msgspec.structs import replace

from agentnb.core.log import work_events as w
from agentnb.core.log.events import Progress
from agentnb.core.run.rounds import CallRecord


class StepRecord(msgspec.Struct, frozen=True, gc=False):
    """A step as it stands: its last start, and what came of it."""

    id: str
    kind: str = ""
    title: str = ""
    parent: str = ""
    status: str = "running"
    """running, completed, failed, cancelled or skipped."""
    inputs: Any = None
    nested: str = ""
    """Id of the nested run that does its work, if one does."""
    output: Any = None
    error: str = ""
    reason: str = ""
    """Why it was skipped, or where it continued."""
    attempts: int = 0
    times: int = 0
    """How often it was started, further attempts not counted."""
    seconds: float | None = None
    agent: str = ""
    """Name of the agent, the tool or the file that does its work."""
    attempt: int = 0
    """The number of the attempt that began last."""
    goes_to: str = ""
    """The step or branch that it chose to continue with; ``reason`` says why, too."""

    @property
    def is_substituted(self) -> bool:
        """True if it failed and ``on_error`` supplied its output; ``error`` has the reason."""
        return is_substituted(self.status, self.error)


def begun(event: w.StepStarted, before: StepRecord | None) -> StepRecord:
    """Return a step that begins, perhaps again."""
    return StepRecord(
        event.step,
        event.step_kind,
        event.title,
        event.parent,
        inputs=event.inputs,
        nested=event.nested,
        times=(0 if before is None else before.times) + (event.attempt == 1),
        agent=event.agent,
        attempt=event.attempt,
    )


def ended(event: w.StepFinished, before: StepRecord) -> StepRecord:
    """Return a step that ends."""
    return StepRecord(
        before.id,
        before.kind,
        before.title,
        before.parent,
        event.status,
        before.inputs,
        before.nested,
        event.output,
        event.error,
        event.reason or before.reason,
        event.attempts,
        before.times,
        event.seconds,
        before.agent,
        before.attempt,
        "" if event.reason else before.goes_to,
    )


def is_substituted(status: str, error: str) -> bool:
    """Return whether a step with this status and error failed, and completed with the substitute of ``on_error``."""
    return status == "completed" and bool(error)


class StepCall(msgspec.Struct, frozen=True, gc=False):
    """A tool call that a step made, not a model."""

    step: str
    """Path of the step."""
    record: CallRecord
    started_at: datetime | None = None
    """UTC; None if it has not begun, or where that is unknown."""
    ended_at: datetime | None = None
    """UTC; None while it is open, or where that is unknown."""


class PlanRecord(msgspec.Struct, frozen=True, gc=False):
    """A plan as it stands."""

    id: str
    plan: dict[str, Any]
    status: str = "proposed"
    """proposed, edited, approved or rejected."""
    by: str = ""
    words: str = ""
    """The words of the person that approved or rejected it, if words did."""
    call_id: str = ""
    """The tool call that asked for it, if one did."""
    reviews: tuple[w.PlanReviewed, ...] = ()
    reason: str = ""
    """Why it was rejected."""
    edits: int = 0
    """How often it was changed."""

    @property
    def is_open(self) -> bool:
        """Whether it was neither approved nor rejected."""
        return self.status in ("proposed", "edited")


def plan_after(event: w.PlanEvent, before: PlanRecord | None) -> PlanRecord:
    """Return a plan as it stands after an event."""
    if isinstance(event, w.PlanProposed):
        return PlanRecord(event.plan_id, event.plan, call_id=event.call_id)
    record = before or PlanRecord(event.plan_id, {})
    if isinstance(event, w.PlanEdited):
        return replace(record, plan=event.plan, status="edited", by=event.by, edits=record.edits + 1)
    if isinstance(event, w.PlanApproved):
        return replace(record, status="approved", by=event.by, words=event.words)
    if isinstance(event, w.PlanRejected):
        return replace(record, status="rejected", by=event.by, words=event.words, reason=event.reason)
    return replace(record, reviews=(*record.reviews, event))


def progress_of(steps: Iterable[StepRecord]) -> Progress | None:
    """Return how many of the steps are over, and which are open; None if there are none."""
    records = list(steps)
    open_titles = [record.title or record.id for record in records if record.status == "running"]
    return Progress(len(records) - len(open_titles), len(records), ", ".join(open_titles)) if records else None
