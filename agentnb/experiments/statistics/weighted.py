"""The difference between two arms, to which single draws were assigned at random, weighted by the probability of each
assignment.

The means are Hájek's: sums weighted by the inverse of the propensity, divided by the sum of the weights. Draws within a task,
or a cluster of tasks, are not independent, so the jackknife leaves out each cluster in turn, and its values are tested like
differences of tasks. Since the few draws of a rare set may all have the same outcome, the test adds one success and one failure
for each set, as two more clusters.

Sources: Hájek (1971), comment on Basu, Foundations of Statistical Inference; Bell and McCaffrey (2002), Survey Methodology 28
(the jackknife CR3); Agresti and Caffo (2000), The American Statistician 54.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import Any, NamedTuple

from agentnb.experiments.statistics.clusters import MeanTest, estimate_mean
from agentnb.experiments.statistics.sign_flips import flip_signs
from agentnb.experiments.statistics.task_values import MIN_TASKS


class WeightedDraw(NamedTuple):
    """The outcome of one draw."""

    cluster: Hashable
    """The task of the draw, or the cluster of its task."""
    is_first: bool
    """True for the first of the two arms."""
    propensity: float
    """Probability of its arm, greater than 0 and at most 1."""
    value: bool


class WeightedDifference(NamedTuple):
    """The weighted mean of the first arm minus that of the second."""

    first: float | None
    """The weighted mean of the first arm, or None if it has no draw."""
    second: float | None
    interval: tuple[float, float] | None = None
    """95 per cent interval of the true difference, or None if too few clusters have draws from both arms."""
    p_value: float | None = None
    """Two-sided p value for no difference: below .05 if and only if the interval excludes 0."""
    clusters: tuple[int, int] = (0, 0)
    """Number of clusters with draws from the first arm, and from the second."""

    @property
    def value(self) -> float | None:
        """The difference, or None if an arm has no draw."""
        return None if self.first is None or self.second is None else self.first - self.second


def estimate_weighted_difference(draws: Iterable[WeightedDraw], confidence: float = 0.95) -> WeightedDifference:
    """Estimate the difference between two arms, with an interval and a p value, by cluster.

    The interval and p value are None unless each arm has draws in `MIN_TASKS` clusters.
    """
    import numpy as np

    sums = _sums_by_cluster(draws)
    clusters = int((sums[:, 0, 1] > 0).sum()), int((sums[:, 1, 1] > 0).sum())
    first, second = _mean(sums[:, 0].sum(axis=0)), _mean(sums[:, 1].sum(axis=0))
    if min(clusters) < MIN_TASKS:
        return WeightedDifference(first, second, clusters=clusters)
    assert first is not None and second is not None, "each arm has draws"
    counted = np.concatenate([sums, _success_and_failure(sums)])
    value = _leave_out(counted)
    test = MeanTest(flip_signs([*map(float, value)]), *map(float, estimate_mean(value, np.ones(len(value)))))
    low, high = test.interval(1 - confidence)
    limits = max(min(low, first - second), -1.0), min(max(high, first - second), 1.0)
    return WeightedDifference(first, second, limits, test.p_value(), clusters)


def _sums_by_cluster(draws: Iterable[WeightedDraw]) -> Any:
    """Return, by cluster and arm, the weighted sum of values, the sum of weights, and the number of draws."""
    import numpy as np

    sums: dict[Hashable, list[list[float]]] = {}
    for draw in draws:
        arm = sums.setdefault(draw.cluster, [[0.0, 0.0, 0.0], [0.0, 0.0, 0.0]])[not draw.is_first]
        weight = 1 / draw.propensity
        arm[0] += weight * draw.value
        arm[1] += weight
        arm[2] += 1
    return np.array([*sums.values()]) if sums else np.zeros((0, 2, 3))


def _mean(sums: Any) -> float | None:
    return float(sums[0] / sums[1]) if sums[1] else None


def _success_and_failure(sums: Any) -> Any:
    """Return two clusters of typical weight: a success in the first arm with a failure in the second, and the reverse."""
    import numpy as np

    usual = sums[:, :, 1].sum(axis=0) / sums[:, :, 2].sum(axis=0)
    ones = np.ones(2)
    return np.stack([np.stack([usual * successes, usual, ones], axis=1) for successes in ((1, 0), (0, 1))])


def _leave_out(sums: Any) -> Any:
    """Return each cluster's jackknife value: how the difference changes without it, scaled so that their mean is the
    difference.
    """
    totals = sums.sum(axis=0)
    remaining = totals - sums
    means, without = totals[:, 0] / totals[:, 1], remaining[:, :, 0] / remaining[:, :, 1]
    difference, others = means[0] - means[1], without[:, 0] - without[:, 1]
    return difference + (len(sums) - 1) * (others.mean() - others)
