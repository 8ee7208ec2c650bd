"""Policies that end runs in loops of repetition or planning."""

from __future__ import annotations

from dataclasses import dataclass

from agentnb.core.todos import all_open_are_blocked, has_open
from agentnb.detect.run import Run
from agentnb.policies.interventions import next_intervention
from agentnb.policies.verdict import LoopFinding, Stop, Verdict

LOOP_BROKEN = "duplicate_loop_broken"
"""Status of the round in which a loop ended the run."""


@dataclass(frozen=True, slots=True)
class SaidTooOften:
    """Loop detection: nearly the same answer for the ``most``-th time."""

    most: int = 3

    def __call__(self, run: Run) -> Stop | None:
        """Stop a run in such a loop."""
        last = run.last_round
        if last.said_before is None or run.judged.repeated < self.most:
            return None
        sentence = f"The answer of round {last.index + 1} nearly repeats that of round {last.said_before + 1}"
        return Stop(
            "loop_detected",
            "stopped",
            round_status=LOOP_BROKEN,
            loop=LoopFinding("already_said", last.said_before, last.index, sentence),
        )


@dataclass(frozen=True, slots=True)
class OnlyBlockedCalls:
    """Loop detection: ``most`` rounds with only blocked calls and no others in between, as the model ignores the marker."""

    most: int = 5

    def __call__(self, run: Run) -> Stop | None:
        """Stop a run in such a loop."""
        count = run.judged.all_blocked
        if count < self.most or not run.last_round.records:
            return None
        last = run.last_round
        names = ", ".join(dict.fromkeys(call.name for call in last.calls))
        sentence = f"{count} rounds requested only calls that were blocked as duplicates ({names})"
        loop = LoopFinding("only_blocked_calls", run.judged.blocked_since, last.index, sentence)
        return Stop("loop_detected", "stopped", round_status=LOOP_BROKEN, loop=loop)


@dataclass(frozen=True, slots=True)
class PlanningLoop:
    """Each planning-only round beyond ``most`` leads to an intervention, at most ``cap`` times in a row.

    Completed todos and work tools count as progress; text-only replies neither count nor reset.
    """

    most: int = 3
    cap: int = 5

    def __call__(self, run: Run) -> Verdict | None:
        """Intervene, or stop."""
        count = run.judged.planning_only
        if count <= self.most or not run.last_round.is_planning_only:
            return None
        if all_open_are_blocked(run.todos):
            return Stop("blocked", "stopped")
        verdict = next_intervention(run, "planning_only", self.cap, self.most)
        if isinstance(verdict, Stop) and not has_open(run.todos):
            sentence = f"{count} rounds of planning without work in between"
            loop = LoopFinding("planning_only", run.judged.planning_since, run.last_round.index, sentence)
            return Stop("loop_detected", "stopped", round_status=LOOP_BROKEN, loop=loop)
        return verdict
