"""Tokens and cost: unknown values stay unknown."""

from __future__ import annotations

from functools import reduce
from operator import add

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentnb.core.usage import NOTHING_USED, Usage

COUNTS = ("input", "output", "cache_read", "cache_write", "reasoning")
some = st.none() | st.integers(0, 10**9)
usages = st.builds(Usage, some, some, some, some, some, st.none() | st.integers(0, 1000).map(float), st.booleans())


def test_uncounted_usage_is_unknown_and_not_zero() -> None:
    assert [getattr(Usage(), name) for name in (*COUNTS, "cost")] == [None] * 6


def test_run_without_model_calls_has_zero_usage() -> None:
    assert (NOTHING_USED.input, NOTHING_USED.output, NOTHING_USED.cost) == (0, 0, 0.0)


@pytest.mark.req("R2.14")
@given(st.lists(usages, min_size=1, max_size=5))
def test_token_sum_counts_known_tokens(several: list[Usage]) -> None:
    total = reduce(add, several)
    for name in COUNTS:
        known = [getattr(one, name) for one in several if getattr(one, name) is not None]
        assert getattr(total, name) == (sum(known) if known else None)


@given(st.lists(usages, min_size=1, max_size=5))
def test_total_cost_is_known_only_if_all_costs_are(several: list[Usage]) -> None:
    costs = [one.cost for one in several]
    assert reduce(add, several).cost == (None if None in costs else sum(cost for cost in costs if cost is not None))


@given(usages, usages)
def test_sum_is_estimated_if_any_part_is(one: Usage, other: Usage) -> None:
    assert (one + other).estimated is (one.estimated or other.estimated)
