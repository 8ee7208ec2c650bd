"""Worlds with a known answer: intervals cover the true difference, and equal variants seldom differ."""

from __future__ import annotations

from typing import Any

import pytest
from property_settings import size
from small_experiments import ASKS, small

from agentnb import GuidanceSet, compare
from agentnb.experiments.results.comparison import Comparison

EFFECT = 0.25
"""P times H of `CHATTY`: how much more often the step is called under a set that asks for a call."""
ALIKE = {
    "asks": GuidanceSet("asks", ASKS),
    "pleads": GuidanceSet("pleads", {**ASKS, "todos_tools": "Please call the tool now."}),
}
SEEDS = range(1_000, 1_000 + size(30, nightly=1_000))
"""Seeds fixed beforehand: 30 by day, 1,000 at night."""


def compared(a: str, b: str, variants: Any, seed: int, **settings: Any) -> Comparison:
    return compare(small(30, variants, seed=seed, **settings).run_sync(show=False), a, b)


@pytest.mark.nightly("by day the intervals are those of statsmodels")
@pytest.mark.slow("thirty experiments of ninety runs each")
def test_intervals_cover_the_known_difference_and_alike_sets_seldom_differ() -> None:
    covered = alarms = 0
    for seed in SEEDS:
        results = small(30, {**ALIKE, "off": "off"}, seed=seed, seeds="independent").run_sync(show=False)
        interval = compare(results, "asks", "off").interval
        covered += interval is not None and interval[0] <= EFFECT <= interval[1]
        alarms += compare(results, "asks", "pleads").p_value < 0.05  # type: ignore[operator]
    low, high = size(0.8, nightly=0.926), size(1.0, nightly=0.971)
    assert low <= covered / len(SEEDS) <= high, f"{covered} of {len(SEEDS)} intervals cover {EFFECT}"
    low, high = size(0.0, nightly=0.029), size(0.2, nightly=0.074)
    assert low <= alarms / len(SEEDS) <= high, f"{alarms} of {len(SEEDS)} comparisons of alike sets alarm"


@pytest.mark.nightly("by day with seeds of their own")
@pytest.mark.slow("a thousand experiments of sixty runs each")
def test_intervals_with_shared_seeds_cover_the_known_difference() -> None:
    found = [compared("asks", "off", {"asks": ALIKE["asks"], "off": "off"}, seed).interval for seed in SEEDS]
    covered = sum(one is not None and one[0] <= EFFECT <= one[1] for one in found)
    assert 0.926 <= covered / len(SEEDS) <= 0.971, f"{covered} of {len(SEEDS)}"


def test_shared_seeds_make_alike_sets_identical() -> None:
    found = compared("asks", "pleads", ALIKE, 1)
    assert found.is_identical and found.interval is None and found.p_value is None
    assert found.missing.endswith("they differ in tokens")
