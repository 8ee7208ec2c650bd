"""Weighted differences of draws: Hájek's means, a jackknife by cluster, and covering intervals, in plain code."""

from __future__ import annotations

from itertools import product
from math import sqrt
from random import Random

import pytest
from pytest import approx
from scipy import stats

from agentnb.experiments.statistics.sign_flips import flip_signs
from agentnb.experiments.statistics.weighted import WeightedDraw, estimate_weighted_difference

Draws = list[WeightedDraw]


def draws(rng: Random, clusters: int = 12, share: float = 0.3, rates: tuple[float, float] = (0.6, 0.3)) -> Draws:
    """Draw clusters with one of two propensities."""
    found = []
    for cluster, _ in product(range(clusters), range(6)):
        propensity = share if cluster % 2 else 1 - share
        is_first = rng.random() < propensity
        found.append(
            WeightedDraw(cluster, is_first, propensity if is_first else 1 - propensity, rng.random() < rates[not is_first])
        )
    return found


def hajek(drawn: Draws, *, without: int | None = None) -> float:
    """Compute the difference by its definition."""
    means = []
    for is_first in (True, False):
        arm = [one for one in drawn if one.is_first is is_first and one.cluster != without]
        means.append(sum(one.value / one.propensity for one in arm) / sum(1 / one.propensity for one in arm))
    return means[0] - means[1]


def with_two_more(drawn: Draws) -> Draws:
    """Add a success and a failure to each arm, as two clusters of the arm's usual weight."""
    more = []
    for is_first in (True, False):
        arm = [1 / one.propensity for one in drawn if one.is_first is is_first]
        usual = len(arm) / sum(arm)
        more += [WeightedDraw(f"more {value is is_first}", is_first, usual, value) for value in (True, False)]
    return drawn + more


def test_interval_and_p_value_equal_a_jackknife_over_clusters(subtests: pytest.Subtests) -> None:
    for seed, clusters in enumerate((6, 9, 20, 40)):
        with subtests.test(f"{clusters} clusters"):
            drawn = draws(Random(seed), clusters)
            difference = estimate_weighted_difference(drawn)
            assert difference.value == approx(hajek(drawn))
            counted = with_two_more(drawn)
            labels = [*dict.fromkeys(one.cluster for one in counted)]
            count, others = len(labels), [hajek(counted, without=label) for label in labels]
            mean = sum(others) / count
            error = sqrt((count - 1) / count * sum((other - mean) ** 2 for other in others))
            of_t = stats.t(count - 1, hajek(counted), error)
            flips = flip_signs([hajek(counted) + (count - 1) * (mean - other) for other in others])
            p_value = max(2 * min(of_t.cdf(0), of_t.sf(0)), flips.p_value())
            limits = [(min(of_t.ppf(0.025), flips.interval(0.05)[0])), max(of_t.ppf(0.975), flips.interval(0.05)[1])]
            assert (difference.p_value, difference.interval) == (approx(p_value), approx(limits))
            assert (difference.p_value < 0.05) == (not difference.interval[0] <= 0 <= difference.interval[1])


def test_draws_with_equal_weights_give_unweighted_means() -> None:
    drawn = [draw._replace(propensity=0.5) for draw in draws(Random(0))]
    difference = estimate_weighted_difference(drawn)
    for is_first, mean in ((True, difference.first), (False, difference.second)):
        values = [one.value for one in drawn if one.is_first is is_first]
        assert mean == approx(sum(values) / len(values))


def test_weighted_intervals_need_six_clusters_drawing_each_arm() -> None:
    drawn = [
        WeightedDraw(cluster, is_first, 0.5, cluster % 2 == is_first) for cluster in range(6) for is_first in (True, False)
    ]
    assert estimate_weighted_difference(drawn).interval is not None
    few = [one for one in drawn if one.cluster or one.is_first]
    assert (found := estimate_weighted_difference(few)).clusters == (6, 5) and found.interval is None and found.p_value is None
    assert found.value == approx(hajek(few))
    alone = estimate_weighted_difference([one for one in drawn if one.is_first])
    assert alone.value is None and alone.first is not None and estimate_weighted_difference([]).first is None


def test_arms_without_variance_have_an_interval() -> None:
    drawn = [WeightedDraw(cluster, is_first, 0.5, is_first) for cluster in range(20) for is_first in (True, False)]
    difference = estimate_weighted_difference(drawn)
    assert (
        difference.value == 1.0
        and difference.interval is not None
        and 0.5 < difference.interval[0] < 0.95
        and difference.interval[1] == 1.0
    )
    assert difference.p_value is not None and difference.p_value < 0.001
