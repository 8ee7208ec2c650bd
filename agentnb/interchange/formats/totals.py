"""Usage of a whole run, as a file sums it up."""

from __future__ import annotations

from typing import Any

from agentnb.core.usage import Usage


def total_of(*, sent: Any = None, received: Any = None, cache_read: Any = None, cost: Any = None) -> Usage:
    """Return the usage of a whole run. 0 counts as unknown: files have it where nothing was counted."""
    tokens = [value if type(value) is int and value > 0 else None for value in (sent, received, cache_read)]
    is_cost = isinstance(cost, int | float) and not isinstance(cost, bool) and 0 < cost < 1e9
    return Usage(tokens[0], tokens[1], tokens[2] if tokens[0] is not None else None, cost=float(cost) if is_cost else None)
