"""One execution of a task, with all its attempts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from agentnb.core.step_retry import ONCE, Retry
from agentnb.runtime.steps.attempt import Place
from agentnb.runtime.steps.step_failures import StepFailure
from agentnb.workflow.tasks.spec import CallStep, TaskStep

ABORTED = frozenset({"aborted"})
"""The word for the failure of a task whose action ends the run."""
MAX_PLAN_ITERATIONS = "max_plan_iterations"
"""The stop reason of a run that has made as many plans as it may."""


class Aborted(Exception):
    """A task with ``abort`` has failed: the run ends with that."""

    def __init__(self, failure: StepFailure) -> None:
        super().__init__(failure.text)
        self.failure = failure


class PlansLimitReached(Exception):
    """A planner would make more plans than the run may have."""


@dataclass(slots=True)
class Execution:
    """A task that is being done."""

    task: TaskStep
    place: Place
    extra: Mapping[str, Any] = field(default_factory=dict)
    """Names that its expressions know as well as the variables, such as the item of an ``emit``."""
    problem: Exception | None = None
    """What makes it fail before its action is called."""
    is_handled: bool = False
    """Whether its ``onError`` has been done."""
    handler_failure: Exception | None = None
    """Why that failed."""
    has_failed: bool = False
    aborts_with: str = ""
    """The failure that its action has stopped at, because of ``abort``."""


def call_step(around: Place, key: str, retry: Retry = ONCE) -> tuple[CallStep, Place]:
    """Return the terms of a step that an action takes, and its place within that of the action."""
    terms = _ONCE if retry is ONCE else CallStep(id="call", path="call", retry=retry)
    return terms, Place(f"{around.path}/{key}", around.path)


_ONCE = CallStep(id="call", path="call")
