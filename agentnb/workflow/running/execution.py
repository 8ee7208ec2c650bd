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
"""Stop reason, and failure word of the node, for a run at its maximum of plans."""
ENDING = ABORTED | {MAX_PLAN_ITERATIONS}
"""Failure words that end the run regardless of the node's settings."""


class Aborted(Exception):
    """A node failure that ends the run."""

    def __init__(self, failure: StepFailure) -> None:
        super().__init__(failure.text)
        self.failure = failure


class Execution(msgspec.Struct):
    """A node in progress."""

    node: Node
    place: Place
    problem: Exception | None = None
    """An error that fails the node before its work begins."""
    is_handled: bool = False
    """True once the failure handler has run."""
    handler_failure: Exception | None = None
    """Error of the failure handler."""
    has_failed: bool = False
    is_last: bool = False
    """True if its work found that the rest of its list does not run."""
    is_plain: bool = False
    """True if the action's result needs no copy."""
    aborts_with: str = ""
    """Failure at which its action stopped, because of ``abort``."""


def call_step(around: Place, key: str) -> tuple[StepTerms, Place]:
    """Return the terms and the place of a step within an action."""
    return _ONCE, Place(f"{around.path}/{key}", around.path)


_ONCE = StepTerms(kind=CALL)
