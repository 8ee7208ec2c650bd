"""Interventions and nudges after text-only replies while todos are open."""

from __future__ import annotations

from dataclasses import dataclass

from agentnb.core.counters import NUDGE
from agentnb.core.run import Run
from agentnb.core.todos import all_open_are_blocked, has_open
from agentnb.guidance.guides import intervention
from agentnb.guidance.sets import GuidanceSet
from agentnb.policies.verdict import Continue, Stop, Verdict


@dataclass(frozen=True, slots=True)
class OpenTodos:
    """Text-only replies with open todos bring another round with an intervention, stronger each time, ``cap`` times.

    The count restarts when a work tool ran or the model completed a todo. If all open todos are blocked, the run stops.
    """

    words: GuidanceSet
    cap: int = 5
    planning_rounds: int = 3
    """Planning-only rounds that are tolerated; more of them raise the level."""

    def __call__(self, run: Run) -> Verdict | None:
        """Intervene, or stop."""
        if run.last_round.records or not has_open(run.todos):
            return None
        if all_open_are_blocked(run.todos):
            return Stop("blocked", "stopped")
        return intervened(self.words, run, "open_todos", self.cap, self.planning_rounds)


def intervened(words: GuidanceSet, run: Run, trigger: str, cap: int, planning_rounds: int) -> Verdict:
    """Return the next intervention, or a stop at the cap.

    Its level is one above the last, or the number of planning-only rounds if that is more.
    """
    counters = run.counters
    if counters.attempts >= cap:
        return Stop("todo_intervention_exhausted", "stopped")
    planning = counters.planning_only if counters.planning_only > planning_rounds else 0
    level = max(counters.attempts + 1, planning)
    return Continue(trigger, guidance=intervention(words, run, trigger, level))


@dataclass(frozen=True, slots=True)
class TodoNudges:
    """Text-only replies with open todos bring a nudge, ``most`` times in a run. After that a text-only reply ends it."""

    words: GuidanceSet
    most: int = 3

    def __call__(self, run: Run) -> Continue | None:
        """Nudge, if any nudges are left."""
        if run.last_round.records or not has_open(run.todos) or all_open_are_blocked(run.todos):
            return None
        if run.counters.nudges >= self.most:
            return None
        return Continue(NUDGE, guidance=intervention(self.words, run, NUDGE, 1))
