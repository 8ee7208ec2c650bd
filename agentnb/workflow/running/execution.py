"""One execution of a node, with all its attempts."""

from __future__ import annotations

import msgspec

from agentnb.core.plans.plan_steps import CALL
from agentnb.runtime.steps.attempt import Place, StepTerms
from agentnb.runtime.steps.step_failures import StepFailure
from agentnb.workflow.graph.nodes import Node

ABORTED = frozenset({"aborted"})
"""The word for the failure of a node whose work ends the run."""

MAX_PLAN_ITERATIONS = "max_plan_iterations"
"""The stop reason of a run that has made as many plans as it may, and the word for the failure of the node."""
ENDING = ABORTED | {MAX_PLAN_ITERATIONS}
"""The words for failures that end the run, whatever the node says."""


class Aborted(Exception):
    """A node has failed that ends the run."""

    def __init__(self, failure: StepFailure) -> None:
        super().__init__(failure.text)
        self.failure = failure


class Execution(msgspec.Struct):
    """A node that is being done."""

    node: Node
    place: Place
    problem: Exception | None = None
    """What makes it fail before its work begins."""
    is_handled: bool = False
    """Whether what handles its failure has been done."""
    handler_failure: Exception | None = None
    """Why that failed."""
    has_failed: bool = False
    is_last: bool = False
    """Whether nothing of its list follows, as its work has found."""
    is_plain: bool = False
    """Whether what its action returns needs no copy."""
    aborts_with: str = ""
    """The failure that its action has stopped at, because of ``abort``."""


def call_step(around: Place, key: str) -> tuple[StepTerms, Place]:
    """Return the terms of a step that an action takes, and its place within that of the action."""
    return _ONCE, Place(f"{around.path}/{key}", around.path)


_ONCE = StepTerms(kind=CALL)
