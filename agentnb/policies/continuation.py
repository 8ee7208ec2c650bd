"""Whether a run goes on where the model stopped: its own markers, and workflow mode."""

from __future__ import annotations

from dataclasses import dataclass

from agentnb.core.run import Run
from agentnb.core.todos import all_open_are_blocked, has_open
from agentnb.guidance.guides import intervention, workflow_reminder
from agentnb.guidance.sets import GuidanceSet
from agentnb.policies.verdict import Continue, Stop, Verdict


@dataclass(frozen=True, slots=True)
class Complete:
    """``[WORKFLOW_COMPLETE]`` ends the run at once; beside calls when they have their results, without another reply.

    With open todos the stop reason says so; with ``strict_todos`` the first such end becomes an intervention instead.
    """

    words: GuidanceSet
    strict_todos: bool = False
    cap: int = 5

    def __call__(self, run: Run) -> Verdict | None:
        """Stop, or refuse to once."""
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
    """``{"status": "stop"}``: the model is stuck. With open todos it is refused, or the run is `blocked` if they all are."""
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
    """``[CONTINUE]`` beside words alone brings another round, ``cap`` times in a row at most."""

    cap: int = 5

    def __call__(self, run: Run) -> Continue | None:
        """Another round."""
        last = run.last_round
        if "continue" not in last.signals or last.records or run.counters.continuations >= self.cap:
            return None
        return Continue("continue_marker")


@dataclass(frozen=True, slots=True)
class WorkflowMode:
    """Words alone bring another round, until the model says ``[WORKFLOW_COMPLETE]``; ``cap`` times in a row at most."""

    words: GuidanceSet
    cap: int = 5

    def __call__(self, run: Run) -> Verdict | None:
        """Go on, or give up."""
        if run.last_round.records:
            return None
        if run.counters.continuations >= self.cap:
            return Stop("workflow_mode_exhausted", "stopped")
        return Continue("workflow_mode", guidance=workflow_reminder(self.words, run))
