"""What open todos decide when a reply is words alone."""

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
    """Words alone while todos are open: another round with an intervention, stronger each time, ``cap`` times.

    The count begins anew when a work tool ran or the model completed a todo. If all that is open is blocked, the run stops.
    """

    words: GuidanceSet
    cap: int = 5
    planning_rounds: int = 3
    """Rounds of planning alone that pass; more of them raise the level."""

    def __call__(self, run: Run) -> Verdict | None:
        """Intervene, or give up."""
        if run.last_round.records or not has_open(run.todos):
            return None
        if all_open_are_blocked(run.todos):
            return Stop("blocked", "stopped")
        return intervened(self.words, run, "open_todos", self.cap, self.planning_rounds)


def intervened(words: GuidanceSet, run: Run, trigger: str, cap: int, planning_rounds: int) -> Verdict:
    """The next intervention: a level above the last, or as strong as planning has gone on; at the cap the run stops."""
    counters = run.counters
    if counters.attempts >= cap:
        return Stop("todo_intervention_exhausted", "stopped")
    planning = counters.planning_only if counters.planning_only > planning_rounds else 0
    level = max(counters.attempts + 1, planning)
    return Continue(trigger, guidance=intervention(words, run, trigger, level))


@dataclass(frozen=True, slots=True)
class TodoNudges:
    """Words alone while todos are open: a nudge, ``most`` times in a run. After that words alone end it."""

    words: GuidanceSet
    most: int = 3

    def __call__(self, run: Run) -> Continue | None:
        """Nudge."""
        if run.last_round.records or not has_open(run.todos) or all_open_are_blocked(run.todos):
            return None
        if run.counters.nudges >= self.most:
            return None
        return Continue(NUDGE, guidance=intervention(self.words, run, NUDGE, 1))
