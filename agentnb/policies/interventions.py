"""Interventions and nudges after text-only replies while todos are open."""

from __future__ import annotations

from dataclasses import dataclass

from agentnb.core.todos import all_open_are_blocked, has_open
from agentnb.detect.run import Run
from agentnb.guidance.guides import intervention
from agentnb.policies.verdict import Continue, Stop, Verdict

INTERVENTIONS = ("open_todos", "planning_only", "strict_todos")
"""Reasons for a round started by an intervention."""
NUDGE = "todo_nudge"
CONTINUED_FOR_TODOS = "auto_continue_todos"
"""Status of a round after which an intervention continued the run because of open todos."""


def attempts(run: Run) -> int:
    """Return the number of interventions since the last work tool, completed todo or message from the person."""
    return run.judged.since_progress(INTERVENTIONS)


@dataclass(frozen=True, slots=True)
class OpenTodos:
    """Text-only replies with open todos start another round with an intervention, escalating up to ``cap`` times.

    The count restarts after a work tool or a completed todo. If all open todos are blocked, the run stops.
    """

    cap: int = 5
    planning_rounds: int = 3
    """Number of tolerated planning-only rounds; more of them raise the level."""

    def __call__(self, run: Run) -> Verdict | None:
        """Intervene, or stop."""
        if run.last_round.records or not has_open(run.todos):
            return None
        if all_open_are_blocked(run.todos):
            return Stop("blocked", "stopped")
        return next_intervention(run, "open_todos", self.cap, self.planning_rounds, CONTINUED_FOR_TODOS)


def next_intervention(run: Run, trigger: str, cap: int, planning_rounds: int, round_status: str = "") -> Verdict:
    """Return the next intervention, or a stop at the cap.

    Its level is one above the last, or the number of planning-only rounds if higher.
    """
    before, planning = attempts(run), run.judged.planning_only
    if before >= cap:
        return Stop("todo_intervention_exhausted", "stopped")
    level = max(before + 1, planning if planning > planning_rounds else 0)
    return Continue(trigger, guidance=intervention(run, trigger, level), round_status=round_status)


@dataclass(frozen=True, slots=True)
class TodoNudges:
    """Text-only replies with open todos lead to a nudge, ``most`` times per run. After that, such replies end the run."""

    most: int = 3

    def __call__(self, run: Run) -> Continue | None:
        """Nudge, up to the maximum."""
        if run.last_round.records or not has_open(run.todos) or all_open_are_blocked(run.todos):
            return None
        if run.judged.reasons.in_run.get(NUDGE, 0) >= self.most:
            return None
        return Continue(NUDGE, guidance=intervention(run, NUDGE, 1), round_status=NUDGE)
