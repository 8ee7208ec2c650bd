"""What a run keeps of its steps, plans, other model calls, findings and scope. Only the fold changes it."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from datetime import datetime
from typing import Any

import msgspec

from agentnb.core.events import Progress
from agentnb.core.rounds import CallRecord
from agentnb.core.step_outputs import StepOutputs, as_text
from agentnb.core.work_events import FindingMade, GrantGiven, GuidanceDrawn, ModelCalled, PlanReviewed, ResultGiven


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
    reviews: tuple[PlanReviewed, ...] = ()


def progress_of(steps: Iterable[StepRecord]) -> Progress | None:
    """Return how many of the steps are over, and which are open; None if there are none."""
    known = list(steps)
    going_on = [one.title or one.id for one in known if one.status == "running"]
    return Progress(len(known) - len(going_on), len(known), ", ".join(going_on)) if known else None


@dataclasses.dataclass(slots=True)
class WorkState:
    """The steps, plans, other model calls, findings and scope of a run."""

    steps: dict[str, StepRecord] = dataclasses.field(default_factory=dict)
    outputs: StepOutputs = dataclasses.field(default_factory=StepOutputs)
    result: ResultGiven | None = None
    """What a workflow that names its result has given; None until then, and for all others."""
    calls: list[StepCall] = dataclasses.field(default_factory=list)
    """The tool calls of steps, in the order in which they began."""
    open_calls: dict[str, tuple[int, ...]] = dataclasses.field(default_factory=dict)
    """Places in ``calls`` of those without a result and, behind these, of the calls that their tools made, by id."""
    back_edges: dict[str, int] = dataclasses.field(default_factory=dict)
    """How often each way back to an earlier step was taken, as ``from -> to``."""
    variables: dict[str, Any] = dataclasses.field(default_factory=dict)
    """The variables of a task file: those that it began with, and those that its tasks have set since."""
    plans: dict[str, PlanRecord] = dataclasses.field(default_factory=dict)
    model_calls: list[ModelCalled] = dataclasses.field(default_factory=list)
    findings: list[FindingMade] = dataclasses.field(default_factory=list)
    drawn: GuidanceDrawn | None = None
    grants: dict[str, GrantGiven] = dataclasses.field(default_factory=dict)
    """The grants in force, by id."""
    context_type: str = ""
    entity: str = ""

    @property
    def text(self) -> str:
        """The result that a workflow names, or the ``answer`` of a task file; else the output of the last step."""
        if self.result is not None:
            return self.result.text or as_text(self.result.output)
        return as_text(self.variables.get("answer")) or self.outputs.text
