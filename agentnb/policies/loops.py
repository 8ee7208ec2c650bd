"""Ends of runs that repeat themselves whatever they are told."""

from __future__ import annotations

from dataclasses import dataclass

from agentnb.core.run import Run
from agentnb.policies.verdict import LoopFinding, Stop


@dataclass(frozen=True, slots=True)
class SaidTooOften:
    """An answer that was given before, for the ``most``-th time: the run is in a loop."""

    most: int = 3

    def __call__(self, run: Run) -> Stop | None:
        """Stop it."""
        last = run.last_round
        if last.said_before is None or run.counters.repeated < self.most:
            return None
        sentence = f"The answer of round {last.index + 1} is nearly that of round {last.said_before + 1}"
        return Stop("loop_detected", "stopped", loop=LoopFinding("already_said", last.said_before, last.index, sentence))


@dataclass(frozen=True, slots=True)
class OnlyBlockedCalls:
    """All calls were blocked, in ``most`` rounds with no other call between: the marker does not reach the model."""

    most: int = 5

    def __call__(self, run: Run) -> Stop | None:
        """Stop it."""
        count = run.counters.all_blocked
        if count < self.most or not run.last_round.records:
            return None
        last = run.last_round
        names = ", ".join(dict.fromkeys(call.name for call in last.calls))
        sentence = f"{count} rounds asked only for calls that were blocked as duplicates ({names})"
        loop = LoopFinding("only_blocked_calls", run.counters.blocked_since, last.index, sentence)
        return Stop("loop_detected", "stopped", loop=loop)
