"""Differences between two arms by cluster of tasks, and the test of their mean over tasks.

A unit, such as a task under a model, holds the values of its repeats. Units are averaged within their task. The tasks of a
cluster are not independent evidence, so the sum of a cluster is flipped as a unit, and counts as one residual in the standard
error.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import fsum
from typing import Any, NamedTuple, TypeAlias

from agentnb.experiments.statistics.extras import load_extra
from agentnb.experiments.statistics.sign_flips import FlipTest, flip_signs
from agentnb.experiments.statistics.task_values import EQUAL_SHARE, MIN_TASKS, TaskValues, TooFewTasks, compute_mean

MAX_MARKS = 11
"""Maximum number of distinct values for an outcome to count as a mark, such as none, half or full."""

Labels: TypeAlias = Sequence[Hashable] | None
"""The task or cluster of each unit. Without task labels, each unit is a task; without cluster labels, each task is a
cluster.
"""


class TaskMeans(NamedTuple):
    """The means of a task in both arms, averaged over its units."""

    a: float
    b: float
    runs: int
    """Number of runs in the arm that has fewer."""


@dataclass(frozen=True)
class ClusterDifferences:
    """Mean of the first arm minus mean of the second, by task."""

    means: list[list[TaskMeans]]
    """The tasks of each cluster."""
    left_out: int
    """Number of units without a value in one of the arms."""
    marks: frozenset[float] | None
    """All values, if there are only a few and they lie between 0 and 1, such as passes and failures; otherwise None."""

    @property
    def is_binary(self) -> bool:
        """True if every value is 1 (passed) or 0 (failed)."""
        return self.marks is not None and self.marks <= {0.0, 1.0}

    @cached_property
    def scale(self) -> float:
        """The largest absolute mean of a task, which sets the scale of rounding errors."""
        return max(max(abs(task.a), abs(task.b)) for cluster in self.means for task in cluster)

    @cached_property
    def clusters(self) -> list[list[float]]:
        """The differences of the tasks in each cluster."""
        return [[task.a - task.b for task in cluster] for cluster in self.means]

    @cached_property
    def tasks(self) -> list[float]:
        """The differences of all tasks."""
        return [value for cluster in self.clusters for value in cluster]

    @cached_property
    def mean(self) -> float:
        """The mean over tasks."""
        return compute_mean(self.tasks)

    @property
    def all_equal(self) -> bool:
        """True if the clusters differ from each other only by rounding errors."""
        means = [compute_mean(cluster) for cluster in self.clusters]
        return max(means) - min(means) <= EQUAL_SHARE * self.scale


class MeanTest(NamedTuple):
    """Two tests of the mean over tasks: sign flips and t. A mean is rejected only if both tests reject it."""

    flips: FlipTest
    mean: float
    """The centre of the t distribution."""
    error: float
    """The standard error of the mean."""
    freedom: float

    def p_value(self, theta: float = 0.0) -> float:
        """Return the two-sided p value for a true mean of ``theta``."""
        below = float(load_extra("scipy.special").stdtr(self.freedom, -abs(self.mean - theta) / self.error))
        return max(self.flips.p_value(theta), 2 * below)

    def interval(self, alpha: float) -> tuple[float, float]:
        """Return the range of true means whose p value is at least ``alpha``."""
        width = float(load_extra("scipy.special").stdtrit(self.freedom, 1 - alpha / 2)) * self.error
        low, high = self.flips.interval(alpha)
        return min(low, self.mean - width), max(high, self.mean + width)


def compute_differences(
    a: TaskValues, b: TaskValues, tasks: Labels = None, clusters: Labels = None
) -> ClusterDifferences | TooFewTasks:
    """Subtract the mean of ``b`` from that of ``a`` within each unit that has values in both.

    Raises ValueError if the numbers of units differ, or if a value is infinite or NaN.
    """
    of_task = range(len(a)) if tasks is None else tasks
    by_cluster: dict[Hashable, dict[Hashable, list[tuple[float, float, int]]]] = {}
    values: set[float] = set()
    left_out = 0
    for values_a, values_b, task, cluster in zip(a, b, of_task, of_task if clusters is None else clusters, strict=True):
        if not len(values_a) or not len(values_b):
            left_out += 1
            continue
        unit = compute_mean(values_a), compute_mean(values_b), min(len(values_a), len(values_b))
        by_cluster.setdefault(cluster, {}).setdefault(task, []).append(unit)
        if len(values) <= MAX_MARKS:
            values.update(values_a, values_b)
    if len(by_cluster) < MIN_TASKS:
        return TooFewTasks(tuple(map(len, by_cluster.values())), left_out)
    has_marks = len(values) <= MAX_MARKS and min(values) >= 0 and max(values) <= 1
    means = [[_average_units(units) for units in cluster.values()] for cluster in by_cluster.values()]
    return ClusterDifferences(means, left_out, frozenset(values) if has_marks else None)


def _average_units(units: list[tuple[float, float, int]]) -> TaskMeans:
    a, b, runs = zip(*units, strict=True)
    return TaskMeans(compute_mean(a), compute_mean(b), sum(runs))


def make_test(differences: ClusterDifferences) -> MeanTest:
    """Return the tests of the mean over tasks, for clusters that have different means.

    For passes and failures, t includes one extra task in favour of each arm, with a difference of the usual size: if one task
    in twenty differs, t alone covers .88 instead of .95. Source: Bonett and Price (2012), Journal of Educational and Behavioral
    Statistics 37.
    """
    totals, sizes = [*map(fsum, differences.clusters)], [*map(len, differences.clusters)]
    flips = flip_signs(totals, sizes)
    if differences.is_binary:
        squares = [value**2 for value in differences.tasks if value]
        usual = (fsum(squares) / len(squares)) ** 0.5
        totals, sizes = [*totals, usual, -usual], [*sizes, 1, 1]
    return MeanTest(flips, *map(float, estimate_mean(totals, sizes)))


def estimate_mean(totals: Any, sizes: Any) -> tuple[Any, Any, Any]:
    """Return the mean over tasks, its cluster-robust standard error CR2, and Satterthwaite's degrees of freedom.

    ``totals``: sums over the tasks in each cluster, with one row per cluster and, for several experiments, one column each. If
    clusters have equal sizes, the error is that of the cluster means, and the degrees of freedom are the number of clusters
    minus 1. Source: Bell and McCaffrey (2002), Survey Methodology 28.
    """
    import numpy as np

    totals, sizes = np.asarray(totals, dtype=float), np.asarray(sizes, dtype=float)
    tasks = sizes.sum(axis=0)
    mean, shares = totals.sum(axis=0) / tasks, sizes / tasks
    error = (((totals - sizes * mean) ** 2 / (1 - shares)).sum(axis=0)) ** 0.5 / tasks
    weights = shares**2 / (1 - shares)
    squares = (shares**2).sum(axis=0) + weights.sum(axis=0) ** 2 - (weights**2).sum(axis=0)  # the trace of a square
    return mean, error, 1 / squares
