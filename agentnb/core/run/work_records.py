"""Records of a run's steps, their tool calls, and plans."""

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
    """The current state of a step: its last start and its result."""

    id: str
    kind: str = ""
    title: str = ""
    parent: str = ""
    status: str = "running"
    """Status: running, completed, failed, cancelled or skipped."""
    inputs: Any = None
    nested: str = ""
    """Id of the nested run that executes the step, if any."""
    output: Any = None
    error: str = ""
    reason: str = ""
    """Reason why the step was skipped, or why it chose its branch."""
    attempts: int = 0
    times: int = 0
    """Number of starts, excluding retries."""
    seconds: float | None = None
    agent: str = ""
    """Name of the agent, tool or file that executes the step."""
    attempt: int = 0
    """Number of the latest attempt."""
    goes_to: str = ""
    """The step or branch with which to continue; ``reason`` holds the condition."""

    @property
    def is_substituted(self) -> bool:
        """True if the step failed and ``on_error`` supplied its output; ``error`` holds the reason."""
        return is_substituted(self.status, self.error)


def begin_step(event: w.StepStarted, before: StepRecord | None) -> StepRecord:
    """Return the record of a step at its start, or restart."""
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


def end_step(event: w.StepFinished, before: StepRecord) -> StepRecord:
    """Return the record of a step at its end."""
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
    """True if a step with this status and error failed and was completed with the substitute from ``on_error``."""
    return status == "completed" and bool(error)


class StepCall(msgspec.Struct, frozen=True, gc=False):
    """A tool call made by a step rather than a model."""

    step: str
    """Path of the step."""
    record: CallRecord
    started_at: datetime | None = None
    """Time (UTC) at which the call started, or None if it has not begun or the time is unknown."""
    ended_at: datetime | None = None
    """Time (UTC) at which the call ended, or None while it is open or if the time is unknown."""


class PlanRecord(msgspec.Struct, frozen=True, gc=False):
    """The current state of a plan."""

    id: str
    plan: dict[str, Any]
    status: str = "proposed"
    """Status: proposed, edited, approved or rejected."""
    by: str = ""
    words: str = ""
    """The person's words, if approved or rejected in words."""
    call_id: str = ""
    """The tool call that requested the plan, if any."""
    reviews: tuple[w.PlanReviewed, ...] = ()
    reason: str = ""
    """The reason why the plan was rejected."""
    edits: int = 0
    """Number of changes to the plan."""

    @property
    def is_open(self) -> bool:
        """True if the plan was neither approved nor rejected."""
        return self.status in ("proposed", "edited")


def plan_after(event: w.PlanEvent, before: PlanRecord | None) -> PlanRecord:
    """Return the plan's record after an event."""
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
    """Return the number of finished steps and the titles of the open ones, or None if there are no steps."""
    records = list(steps)
    open_titles = [record.title or record.id for record in records if record.status == "running"]
    return Progress(len(records) - len(open_titles), len(records), ", ".join(open_titles)) if records else None
