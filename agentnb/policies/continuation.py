"""Policies for the model's own markers, and for workflow mode."""

from __future__ import annotations

from dataclasses import dataclass

from agentnb.core.run import Run
from agentnb.core.todos import all_open_are_blocked, has_open
from agentnb.guidance.guides import intervention, workflow_reminder
from agentnb.guidance.sets import GuidanceSet
from agentnb.policies.verdict import Continue, Stop, Verdict


@dataclass(frozen=True, slots=True)
class Complete:
    """``[WORKFLOW_COMPLETE]`` ends the run at once; beside tool calls, when their results are in, without another reply.

    With open todos the stop reason says so; with ``strict_todos`` the first such end becomes an intervention instead.
    """

    words: GuidanceSet
    strict_todos: bool = False
    cap: int = 5

    def __call__(self, run: Run) -> Verdict | None:
        """Return the stop, or refuse it once."""
        if "complete" not in run.last_round.signals:
            return None
        if not has_open(run.todos):
            return Stop("workflow_complete")
        refuses = self.strict_todos and not run.counters.strict and run.counters.attempts < self.cap
        if refuses and not all_open_are_blocked(run.todos):
            level = run.counters.attempts + 1
            return Continue("strict_todos", guidance=intervention(self.words, run, "strict_todos", level))
        return Stop("complete_with_open_todos")


def stuck(run: Run) -> Stop | None:
    """Stop if the model reports that it is stuck, with ``{"status": "stop"}``.

    With open todos this is refused, or the run ends as `blocked` if they all are.
    """
    if "stop" not in run.last_round.signals or has_open(run.todos):
        return None
    return Stop(
        "error",
        "failed",
        problem="The model says that it is stuck",
        hint="Read its last words in run.text, and go on with --continue",
    )


@dataclass(frozen=True, slots=True)
class GoOn:
    """``[CONTINUE]`` in a text-only reply brings another round, at most ``cap`` times in a row."""

    cap: int = 5

    def __call__(self, run: Run) -> Continue | None:
        """Continue, up to the cap."""
        last = run.last_round
        if "continue" not in last.signals or last.records or run.counters.continuations >= self.cap:
            return None
        return Continue("continue_marker")


@dataclass(frozen=True, slots=True)
class WorkflowMode:
    """Text-only replies bring another round until the model says ``[WORKFLOW_COMPLETE]``; at most ``cap`` times in a row."""

    words: GuidanceSet
    cap: int = 5

    def __call__(self, run: Run) -> Verdict | None:
        """Continue, or stop at the cap."""
        if run.last_round.records:
            return None
        if run.counters.continuations >= self.cap:
            return Stop("workflow_mode_exhausted", "stopped")
        return Continue("workflow_mode", guidance=workflow_reminder(self.words, run))
