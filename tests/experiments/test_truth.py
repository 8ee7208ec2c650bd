"""Experiments of personas with a known answer: intervals cover the true difference, and equal variants seldom differ."""

from __future__ import annotations

from typing import Any

import pytest
from binomial_bounds import at_least, at_most
from property_settings import size
from small_experiments import ASKS, small

from agentnb import GuidanceSet, compare
from agentnb.experiments.results.comparison import Comparison

EFFECT = 0.25
"""P times H of `CHATTY`: the increase in calls of the step under a set that asks for one."""
ALIKE = {
    "asks": GuidanceSet("asks", ASKS),
    "pleads": GuidanceSet("pleads", {**ASKS, "todos_tools": "Please call the tool now."}),
}
EXPERIMENTS, TASKS = size(30, nightly=1_000), size(12, nightly=30)
SEEDS = range(1_000, 1_000 + EXPERIMENTS)
"""Seeds fixed in advance."""


def compared(a: str, b: str, variants: Any, seed: int, **settings: Any) -> Comparison:
    return compare(small(TASKS, variants, seed=seed, **settings).run_sync(show=False), a, b)


def covers(one: Comparison) -> bool:
    return one.interval is not None and one.interval[0] <= EFFECT <= one.interval[1]


def alarms(one: Comparison) -> bool:
    return one.p_value is not None and one.p_value < 0.05


@pytest.mark.nightly("by day intervals cover in simulated worlds")
@pytest.mark.slow("thirty experiments of three arms, whose runs are really made")
def test_intervals_cover_known_differences_and_equal_sets_rarely_differ() -> None:
    found = [small(TASKS, {**ALIKE, "off": "off"}, seed=seed, seeds="independent").run_sync(show=False) for seed in SEEDS]
    covered = sum(covers(compare(results, "asks", "off")) for results in found)
    assert covered >= at_least(0.95, EXPERIMENTS), f"{covered} of {EXPERIMENTS} intervals cover {EFFECT}"
    alarmed = sum(alarms(compare(results, "asks", "pleads")) for results in found)
    assert alarmed <= at_most(0.05, EXPERIMENTS), f"{alarmed} of {EXPERIMENTS} comparisons of alike sets alarm"


@pytest.mark.nightly("by day with seeds of their own")
@pytest.mark.slow("a thousand experiments of sixty runs each")
def test_intervals_with_shared_seeds_cover_the_known_difference() -> None:
    covered = sum(covers(compared("asks", "off", {"asks": ALIKE["asks"], "off": "off"}, seed)) for seed in SEEDS)
    assert covered >= at_least(0.95, EXPERIMENTS), f"{covered} of {EXPERIMENTS} intervals cover {EFFECT}"


def test_shared_seeds_make_results_of_equal_sets_identical() -> None:
    comparison = compared("asks", "pleads", ALIKE, 1)
    assert comparison.is_identical and comparison.interval is None and comparison.p_value is None
    assert comparison.missing.endswith("They differ in tokens")
