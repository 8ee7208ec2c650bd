"""Policies for the model's own markers and for workflow mode."""

from __future__ import annotations

from dataclasses import dataclass

from agentnb.advice import TryAgain
from agentnb.core.todos import all_open_are_blocked, has_open
from agentnb.detect.run import Run
from agentnb.guidance.guides import intervention, workflow_reminder
from agentnb.policies.interventions import CONTINUED_FOR_TODOS, attempts
from agentnb.policies.verdict import Continue, Stop, Verdict

STRICT = "strict_todos"
CONTINUATIONS = ("workflow_mode", "continue_marker")
"""Reasons for a round after a text-only reply: workflow mode, or the model's own marker."""
CONTINUED = "auto_continue_workflow"
"""Status of a round that is followed by one for these reasons."""


@dataclass(frozen=True, slots=True)
class Complete:
    """``[WORKFLOW_COMPLETE]`` ends the run at once, or after the results of tool calls in the same reply, without another
    reply.

    The stop reason mentions open todos; with ``strict_todos``, the first such stop becomes an intervention instead.
    """

    strict_todos: bool = False
    cap: int = 5

    def __call__(self, run: Run) -> Verdict | None:
        """Return the stop, or an intervention the first time."""
        if "complete" not in run.last_round.signals:
            return None
        if not has_open(run.todos):
            return Stop("workflow_complete", round_status="workflow_complete")
        before = attempts(run)
        refuses = self.strict_todos and not run.judged.reasons.in_run.get(STRICT, 0) and before < self.cap
        if refuses and not all_open_are_blocked(run.todos):
            words = intervention(run, STRICT, before + 1)
            return Continue(STRICT, guidance=words, round_status=CONTINUED_FOR_TODOS)
        return Stop("complete_with_open_todos", round_status="workflow_complete")


def stuck(run: Run) -> Stop | None:
    """Stop if the model reports with ``{"status": "stop"}`` that it is stuck.

    Ignored while todos are open; if all of them are blocked, the run ends as `blocked`.
    """
    if "stop" not in run.last_round.signals or has_open(run.todos):
        return None
    return Stop(
        "error",
        "failed",
        problem="The model says that it is stuck",
        hint=TryAgain(lead="Read its last message in run.text, then try again"),
    )


@dataclass(frozen=True, slots=True)
class GoOn:
    """``[CONTINUE]`` in a text-only reply starts another round, at most ``cap`` times in a row."""

    cap: int = 5

    def __call__(self, run: Run) -> Continue | None:
        """Continue up to the cap."""
        last = run.last_round
        if "continue" not in last.signals or last.records or run.judged.since_call(CONTINUATIONS) >= self.cap:
            return None
        return Continue("continue_marker", round_status=CONTINUED)


@dataclass(frozen=True, slots=True)
class WorkflowMode:
    """Text-only replies start another round until the model sends ``[WORKFLOW_COMPLETE]``, at most ``cap`` times in a row."""

    cap: int = 5

    def __call__(self, run: Run) -> Verdict | None:
        """Continue, or stop at the cap."""
        if run.last_round.records:
            return None
        if run.judged.since_call(CONTINUATIONS) >= self.cap:
            return Stop("workflow_mode_exhausted", "stopped")
        return Continue("workflow_mode", guidance=workflow_reminder(run), round_status=CONTINUED)
