"""Workflow mode: words alone do not end the run."""

from __future__ import annotations

from dataclasses import dataclass

from agentnb.core.run import Run
from agentnb.guidance.guides import workflow_reminder
from agentnb.guidance.sets import GuidanceSet
from agentnb.policies.verdict import Continue, Stop, Verdict


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
