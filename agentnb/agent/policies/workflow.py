"""Workflow mode: words alone do not end the run."""

from __future__ import annotations

from dataclasses import dataclass

from agentnb.agent.guidance.guides import workflow_reminder
from agentnb.agent.guidance.sets import GuidanceSet
from agentnb.agent.policies.verdict import Continue, Stop, Verdict
from agentnb.core.run import Run


@dataclass(frozen=True, slots=True)
class WorkflowMode:
    """Words alone bring another round, until the model says ``[WORKFLOW_COMPLETE]``; ``cap`` times in a row at most."""

    words: GuidanceSet
    cap: int = 5

    def __call__(self, run: Run) -> Verdict | None:
        """Go on, or give up."""
        if run.last_round.records:
            return None
        if run.tallies.continuations >= self.cap:
            return Stop("workflow_mode_exhausted", "stopped")
        return Continue("workflow_mode", guidance=workflow_reminder(self.words, run))
