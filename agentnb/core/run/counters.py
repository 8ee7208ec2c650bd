"""Counters of a run: what was called and spent."""

from __future__ import annotations

import msgspec


class Counters(msgspec.Struct, gc=False):
    """Counts over the run so far. Only the fold changes them."""

    calls: int = 0
    """Tool calls admitted in the whole run."""
    calls_this_turn: int = 0
    """Tool calls admitted since the person last spoke."""
    failed_calls: int = 0
    """Calls of the model and of steps that failed; stopped, interrupted and lost ones did not."""
    blocked_calls: int = 0
    """Such calls that a gate, a limit or the person refused."""
    spent: float = 0.0
    """US dollars spent on its own model calls with a known price."""
    spent_inside: float = 0.0
    """US dollars spent by nested runs."""
    times_recovered: int = 0
