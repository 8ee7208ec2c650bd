"""Planning without end."""

from __future__ import annotations

from dataclasses import dataclass

from agentnb.core.run import Run
from agentnb.core.todos import all_open_are_blocked, has_open
from agentnb.guidance.sets import GuidanceSet
from agentnb.policies.todos import intervened
from agentnb.policies.verdict import LoopFinding, Stop, Verdict


@dataclass(frozen=True, slots=True)
class PlanningLoop:
    """More than ``most`` rounds of planning alone: each further one brings an intervention, ``cap`` times in a row at most.

    Completing a todo is progress, and so is any work tool; words alone neither count nor reset.
    """

    words: GuidanceSet
    most: int = 3
    cap: int = 5

    def __call__(self, run: Run) -> Verdict | None:
        """Intervene, or give up."""
        count = run.counters.planning_only
        if count <= self.most or not run.last_round.is_planning_only:
            return None
        if all_open_are_blocked(run.todos):
            return Stop("blocked", "stopped")
        verdict = intervened(self.words, run, "planning_only", self.cap, self.most)
        if isinstance(verdict, Stop) and not has_open(run.todos):
            sentence = f"{count} rounds of planning, and no work between them"
            loop = LoopFinding("planning_only", run.counters.planning_since, run.last_round.index, sentence)
            return Stop("loop_detected", "stopped", loop=loop)
        return verdict
