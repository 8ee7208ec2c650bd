"""Counters of a run: calls and spending."""

from __future__ import annotations

import msgspec


class Counters(msgspec.Struct, gc=False):
    """Counts over the run so far. Changed only by the fold."""

    calls: int = 0
    """Tool calls admitted in the entire run."""
    calls_this_turn: int = 0
    """Tool calls admitted since the person last spoke."""
    failed_calls: int = 0
    """Failed calls of the model and of steps, excluding stopped, interrupted and lost calls."""
    blocked_calls: int = 0
    """Calls refused by a gate, a limit or the person."""
    spent: float = 0.0
    """US dollars spent on the run's own model calls with a known price."""
    spent_inside: float = 0.0
    """US dollars spent by nested runs."""
    times_recovered: int = 0
