"""Limits, each by its own name: that of its setting, of its stop reason and of its event."""

from __future__ import annotations

from dataclasses import dataclass

from agentnb.core.rounds import MAX_TOOL_CALLS, MAX_TOOL_CALLS_PER_TURN
from agentnb.core.run import Run
from agentnb.policies.verdict import Stop
from agentnb.runtime.budget import Budget


@dataclass(frozen=True, slots=True)
class MaxRounds:
    """At most so many rounds. The run keeps all it has; ``--continue`` goes on."""

    most: int

    def __call__(self, run: Run) -> Stop | None:
        """Stop after that many."""
        return Stop("max_rounds", "limited", limit=self.most) if run.last_round.index + 1 >= self.most else None


@dataclass(frozen=True, slots=True)
class MaxToolCalls:
    """The model asked for more calls than it may make. (Those that it may make are run, and it may answer from them.)"""

    in_run: int | None
    in_turn: int | None

    def __call__(self, run: Run) -> Stop | None:
        """Stop when a call of the last round was not let run because of its number."""
        for record in run.last_round.records:
            if record.rule == MAX_TOOL_CALLS:
                return Stop(MAX_TOOL_CALLS, "limited", limit=self.in_run)
            if record.rule == MAX_TOOL_CALLS_PER_TURN:
                return Stop(MAX_TOOL_CALLS_PER_TURN, "limited", limit=self.in_turn)
        return None


@dataclass(frozen=True, slots=True)
class MaxTokens:
    """At most so many tokens, sent and received, of all calls of the model; the last may go over it."""

    most: int

    def __call__(self, run: Run) -> Stop | None:
        """Stop when they are used."""
        used = (run.usage.input or 0) + (run.usage.output or 0)
        return Stop("max_tokens", "limited", limit=self.most) if used >= self.most else None


@dataclass(frozen=True, slots=True)
class WithinBudget:
    """No more money than there is in the budget; the last round, with a summary before it, may go over it."""

    budget: Budget

    def __call__(self, run: Run) -> Stop | None:
        """Stop when it is empty."""
        empty = self.budget.exhausted()
        return None if empty is None else Stop(empty.name, "limited", limit=empty.limit)
