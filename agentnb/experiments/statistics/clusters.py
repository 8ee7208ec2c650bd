"""Differences of two arms by cluster of tasks, and the test of their mean over tasks.

A unit, such as a task under a model, holds the values of its repeats. Units are averaged within their task, and tasks of a
cluster are no evidence of their own: its sum is flipped as a whole, and is one residual of the standard error.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from math import fsum
from typing import NamedTuple, TypeAlias

from agentnb.experiments.statistics.extras import load_extra
from agentnb.experiments.statistics.sign_flips import FlipTest, flip_signs
from agentnb.experiments.statistics.tasks import EQUAL_SHARE, MIN_TASKS, TaskValues, TooFewTasks, compute_mean

Labels: TypeAlias = Sequence[Hashable] | None
"""The task or cluster of each unit. Without labels of tasks each unit is a task, without those of clusters each task is one."""


class ClusterDifferences(NamedTuple):
    """Mean of the first arm minus mean of the second, by task."""

    clusters: list[list[float]]
    """Differences of the tasks of each cluster."""
    left_out: int
    """Units without a value in one of the arms."""
    scale: float
    """Largest absolute mean of a unit: the scale of rounding errors."""
    is_binary: bool
    """True if all values are passes and fails: 1 and 0."""

    @property
    def tasks(self) -> list[float]:
        """Differences of all tasks."""
        return [value for cluster in self.clusters for value in cluster]

    @property
    def mean(self) -> float:
        """Mean over tasks."""
        return compute_mean(self.tasks)

    @property
    def all_equal(self) -> bool:
        """True if no cluster differs from another by more than rounding errors."""
        means = [compute_mean(cluster) for cluster in self.clusters]
        return max(means) - min(means) <= EQUAL_SHARE * self.scale


class MeanTest(NamedTuple):
    """Two tests of the mean over tasks, sign flips and t: a mean is rejected where both reject it."""

    flips: FlipTest
    mean: float
    """Center of t."""
    error: float
    """Standard error of it."""
    freedom: float

    def p_value(self, theta: float = 0.0) -> float:
        """Return the two-sided p value of a true mean of ``theta``."""
        below = float(load_extra("scipy.special").stdtr(self.freedom, -abs(self.mean - theta) / self.error))
        return max(self.flips.p_value(theta), 2 * below)

    def interval(self, alpha: float) -> tuple[float, float]:
        """Return the range of true means with a p value of at least ``alpha``."""
        width = float(load_extra("scipy.special").stdtrit(self.freedom, 1 - alpha / 2)) * self.error
        low, high = self.flips.interval(alpha)
        return min(low, self.mean - width), max(high, self.mean + width)


def compute_differences(
    a: TaskValues, b: TaskValues, tasks: Labels = None, clusters: Labels = None
) -> ClusterDifferences | TooFewTasks:
    """Subtract the mean of ``b`` from that of ``a`` within each unit that has a value in both.

    Raises ValueError if there are different numbers of units, or for a value that is infinite or NaN.
    """
    of_task = range(len(a)) if tasks is None else tasks
    found: dict[Hashable, dict[Hashable, list[float]]] = {}
    scale, left_out, is_binary = 0.0, 0, True
    for one, other, task, cluster in zip(a, b, of_task, of_task if clusters is None else clusters, strict=True):
        if not len(one) or not len(other):
            left_out += 1
            continue
        means = compute_mean(one), compute_mean(other)
        scale = max(scale, *map(abs, means))
        is_binary = is_binary and {0.0, 1.0}.issuperset([*one, *other])
        found.setdefault(cluster, {}).setdefault(task, []).append(means[0] - means[1])
    if len(found) < MIN_TASKS:
        return TooFewTasks(len(found), left_out)
    by_cluster = [[compute_mean(units) for units in cluster.values()] for cluster in found.values()]
    return ClusterDifferences(by_cluster, left_out, scale, is_binary)


def make_test(differences: ClusterDifferences) -> MeanTest:
    """Return the tests of the mean over tasks of clusters that do not all have the same mean.

    For passes and fails, t has one more task for either arm, each with a difference of the usual size: where one in twenty tasks
    differs, t alone covers .88 of 95 per cent. Source: Bonett and Price (2012), Journal of Educational and Behavioral
    Statistics 37.
    """
    totals, sizes = [*map(fsum, differences.clusters)], [*map(len, differences.clusters)]
    flips = flip_signs(totals, sizes)
    if differences.is_binary:
        squares = [value**2 for value in differences.tasks if value]
        usual = (fsum(squares) / len(squares)) ** 0.5
        totals, sizes = [*totals, usual, -usual], [*sizes, 1, 1]
    return MeanTest(flips, *estimate_mean(totals, sizes))


def estimate_mean(totals: Sequence[float], sizes: Sequence[int]) -> tuple[float, float, float]:
    """Return the mean over tasks, its cluster-robust standard error CR2, and Satterthwaite's degrees of freedom.

    With clusters of one size these are the standard error of the means of clusters, and their number less 1. Source: Bell and
    McCaffrey (2002), Survey Methodology 28.
    """
    tasks = sum(sizes)
    mean = fsum(totals) / tasks
    shares = [size / tasks for size in sizes]
    error = (
        fsum((total - size * mean) ** 2 / (1 - share) for total, size, share in zip(totals, sizes, shares, strict=True)) ** 0.5
    )
    weights = [share**2 / (1 - share) for share in shares]
    squares = fsum(share**2 for share in shares) + fsum(weights) ** 2 - fsum(weight**2 for weight in weights)  # trace of P P
    return mean, error / tasks, 1 / squares
