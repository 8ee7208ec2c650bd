"""Tokens and cost of model calls, and their sums."""

from __future__ import annotations

import math
from typing import NamedTuple

import msgspec
from msgspec.structs import replace

from agentnb.core.schema.counts import LARGEST, Count


class Usage(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """Token counts; unknown values are None, never 0.

    ``input`` counts all tokens sent, including those read from a cache. ``cost`` is in US dollars.
    """

    input: Count | None = None
    output: Count | None = None
    cache_read: Count | None = None
    cache_write: Count | None = None
    reasoning: Count | None = None
    cost: float | None = None
    estimated: bool = False
    """True if any part is agentnb's estimate rather than the provider's report."""

    def __add__(self, other: Usage) -> Usage:
        """Return the sum of the known values: tokens are added if either count is known, costs only if both are."""
        if other is UNKNOWN:  # every round of a model without usage reports
            return self if self.cost is None else replace(self, cost=None)
        return Usage(
            _add_known(self.input, other.input),
            _add_known(self.output, other.output),
            _add_known(self.cache_read, other.cache_read),
            _add_known(self.cache_write, other.cache_write),
            _add_known(self.reasoning, other.reasoning),
            None if self.cost is None or other.cost is None else self.cost + other.cost,
            self.estimated or other.estimated,
        )

    def since(self, before: Usage) -> Usage:
        """Return the usage since an earlier total of the same run: the known tokens, and a cost if this total has one."""
        return Usage(
            _less(self.input, before.input),
            _less(self.output, before.output),
            _less(self.cache_read, before.cache_read),
            _less(self.cache_write, before.cache_write),
            _less(self.reasoning, before.reasoning),
            None if self.cost is None else max(0.0, round(self.cost - (before.cost or 0.0), COST_DIGITS)),
            self.estimated,
        )


UNKNOWN = Usage()
"""Usage of a model call for which none was reported."""
_TOKENS = ("input", "output", "cache_read", "cache_write", "reasoning")
NOTHING_USED = Usage(input=0, output=0, cost=0.0)
"""Usage of a run before its first model call."""
COST_DIGITS = 12
"""Decimal places of cost differences: rounding removes floating-point noise."""


class NestedUsage(NamedTuple):
    """Usage of a nested run, excluding the runs nested in it."""

    spent: float
    """US dollars for the nested run's model calls with a known price."""
    usage: Usage

    @classmethod
    def of_dollars(cls, dollars: float) -> NestedUsage:
        """Return usage with known dollars and unknown tokens."""
        return cls(dollars, Usage(cost=dollars))

    def including(self, other: NestedUsage) -> NestedUsage:
        """Return the sum."""
        return NestedUsage(self.spent + other.spent, self.usage + other.usage)

    def since(self, before: NestedUsage | None) -> NestedUsage:
        """Return the usage since an earlier total of the same run; ``before``: that total, or None for nothing."""
        if before is None:
            return self
        return NestedUsage(max(0.0, round(self.spent - before.spent, COST_DIGITS)), self.usage.since(before.usage))

    @property
    def is_nothing(self) -> bool:
        """True if there are neither tokens nor dollars, although there may be calls with an unknown price."""
        return not (self.spent or self.usage.input or self.usage.output or self.usage.cost)


class NestedTotals(msgspec.Struct, gc=False):
    """Usage of the nested runs of a run, by run and in total."""

    by_run: dict[str, NestedUsage] = {}
    """Usage by id of the nested run; the empty id holds the total dollars logged by earlier versions."""
    usage: Usage | None = None

    def add(self, run_id: str, nested: NestedUsage) -> None:
        """Add the usage of a nested run."""
        before = self.by_run.get(run_id)
        self.by_run[run_id] = nested if before is None else before.including(nested)
        self.usage = nested.usage if self.usage is None else self.usage + nested.usage


def logged_nested_usage(nested_run: str, spent: float, usage: Usage) -> NestedUsage | None:
    """Return the logged usage of a nested run, or None. Events of earlier versions do not name the nested run."""
    if nested_run:
        return NestedUsage(spent, usage)
    return NestedUsage.of_dollars(spent) if spent else None


def _less(a: int | None, b: int | None) -> int | None:
    return None if a is None else max(0, a - (b or 0))


def _add_known(a: int | None, b: int | None) -> int | None:
    if a is None:
        return b
    return a if b is None else a + b


def counts(usage: Usage, error: str = "") -> bool:
    """True if a call outside the loop changes the total: it used something, and if it failed, it reported its usage."""
    return usage != NOTHING_USED and not (error and usage == UNKNOWN)


def sanitize_usage(found: object) -> Usage:
    """Sanitize usage reported by third-party models: invalid token counts and costs become unknown."""
    if not isinstance(found, Usage):
        return UNKNOWN
    reported = {name: getattr(found, name) for name in _TOKENS}
    tokens = {name: value if type(value) is int and 0 <= value <= LARGEST else None for name, value in reported.items()}
    cost = found.cost if isinstance(found.cost, int | float) and math.isfinite(found.cost) and found.cost >= 0 else None
    return Usage(**tokens, cost=None if cost is None else float(cost), estimated=found.estimated is True)
