"""Limits, each by its own name."""

from __future__ import annotations

from dataclasses import dataclass

from agentnb.agent.policies.verdict import Stop
from agentnb.core.run import Run


@dataclass(frozen=True, slots=True)
class MaxRounds:
    """At most so many rounds. The run keeps all it has; ``--continue`` goes on."""

    most: int

    def __call__(self, run: Run) -> Stop | None:
        """Stop after that many."""
        return Stop("max_rounds", "limited", limit=self.most) if run.last_round.index + 1 >= self.most else None
