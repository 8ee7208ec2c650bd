"""Execution of a node, with all its attempts."""

from __future__ import annotations

import msgspec

from agentnb.core.plans.plan_steps import CALL
from agentnb.runtime.steps.attempt import Place, StepTerms
from agentnb.runtime.steps.step_failures import StepFailure
from agentnb.workflow.graph.nodes import Node

ABORTED = frozenset({"aborted"})
"""Failure word of a node that ends the run."""

MAX_PLAN_ITERATIONS = "max_plan_iterations"
"""Stop reason of a run that reached its maximum number of plans, and failure word of the node."""
ENDING = ABORTED | {MAX_PLAN_ITERATIONS}
"""Failure words that end the run regardless of the node's settings."""


class Aborted(Exception):
    """A failure of a node that ends the run."""

    def __init__(self, failure: StepFailure) -> None:
        super().__init__(failure.text)
        self.failure = failure


class Execution(msgspec.Struct):
    """A node being executed."""

    node: Node
    place: Place
    problem: Exception | None = None
    """An error that makes the node fail before its work begins."""
    is_handled: bool = False
    """True once the failure handler has run."""
    handler_failure: Exception | None = None
    """Error of the failure handler."""
    has_failed: bool = False
    is_last: bool = False
    """True once its work has determined that the remaining nodes of its list must not run."""
    is_plain: bool = False
    """True if the result of the action need not be copied."""
    aborts_with: str = ""
    """The failure at which its action stopped because ``abort`` was set."""


def call_step(around: Place, key: str) -> tuple[StepTerms, Place]:
    """Return the terms and place of a step within an action."""
    return _ONCE, Place(f"{around.path}/{key}", around.path)


_ONCE = StepTerms(kind=CALL)
