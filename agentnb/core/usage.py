"""Tokens and cost of a model call, and their sums."""

from __future__ import annotations

import math

import msgspec
from msgspec.structs import replace


class Usage(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """Counts of tokens; what is unknown is None, never 0.

    ``input`` counts all tokens sent, those read from a cache included. ``cost`` is in US dollars.
    """

    input: int | None = None
    output: int | None = None
    cache_read: int | None = None
    cache_write: int | None = None
    reasoning: int | None = None
    cost: float | None = None
    estimated: bool = False
    """True if any part is our estimate and not the provider's report."""

    def __add__(self, other: Usage) -> Usage:
        """Return the sum of what is known: tokens add if either count is known, costs only if both are."""
        if other is UNKNOWN:  # the case in every round of a model that reports nothing
            return self if self.cost is None else replace(self, cost=None)
        return Usage(
            _known(self.input, other.input),
            _known(self.output, other.output),
            _known(self.cache_read, other.cache_read),
            _known(self.cache_write, other.cache_write),
            _known(self.reasoning, other.reasoning),
            None if self.cost is None or other.cost is None else self.cost + other.cost,
            self.estimated or other.estimated,
        )


UNKNOWN = Usage()
"""The usage of a model call that reported nothing."""
_TOKENS = ("input", "output", "cache_read", "cache_write", "reasoning")
NOTHING_USED = Usage(input=0, output=0, cost=0.0)
"""The usage of a run that has called no model yet."""


def _known(a: int | None, b: int | None) -> int | None:
    if a is None:
        return b
    return a if b is None else a + b


def counts(usage: Usage, error: str = "") -> bool:
    """Return whether a call besides the loop changes the sum: not if it used nothing, or failed without a report."""
    return usage != NOTHING_USED and not (error and usage == UNKNOWN)


def checked(found: object) -> Usage:
    """Sanitize usage reported by third-party models: a value that is not a number of tokens, or of dollars, becomes unknown."""
    if not isinstance(found, Usage):
        return UNKNOWN
    reported = {name: getattr(found, name) for name in _TOKENS}
    tokens = {name: value if type(value) is int and value >= 0 else None for name, value in reported.items()}
    cost = found.cost if isinstance(found.cost, int | float) and math.isfinite(found.cost) and found.cost >= 0 else None
    return Usage(**tokens, cost=None if cost is None else float(cost), estimated=found.estimated is True)
