"""The total usage of a run, as stated in its file."""

from __future__ import annotations

from typing import Any

from agentnb.core.usage import Usage
from agentnb.interchange.formats.message_content import cost_of


def total_of(*, sent: Any = None, received: Any = None, cache_read: Any = None, cost: Any = None) -> Usage:
    """Return the total usage of a run. 0 counts as unknown, because files use it for values that were not counted."""
    tokens = [value if type(value) is int and value > 0 else None for value in (sent, received, cache_read)]
    return Usage(tokens[0], tokens[1], tokens[2] if tokens[0] is not None else None, cost=cost_of(cost) or None)
