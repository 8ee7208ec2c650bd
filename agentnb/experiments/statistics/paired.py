"""The difference between two arms within tasks, with its interval and p value."""

from __future__ import annotations

from typing import NamedTuple

from agentnb.experiments.statistics.clusters import ClusterDifferences, Labels, compute_differences, make_test
from agentnb.experiments.statistics.extras import load_extra
from agentnb.experiments.statistics.sign_flips import required_clusters
from agentnb.experiments.statistics.task_values import EQUAL_SHARE, TaskValues, TooFewTasks

MIN_SKEWED = 25
"""Minimum number of clusters (for marks, of tasks that differ) required to decide whether differences are skewed."""


class Difference(NamedTuple):
    """The mean difference between two arms over tasks."""

    value: float
    interval: tuple[float, float] | None
    """Limits of the true mean, or None if the differences of all clusters are equal."""
    p_value: float
    """Two-sided p value for no difference: below ``1 - confidence`` if and only if the interval excludes 0."""
    tasks: int
    left_out: int
    """Number of units without a value in one of the arms."""
    sizes: tuple[int, ...]
    """Number of tasks in each cluster; all 1 if there are no clusters."""
    confidence: float
    max_exception_share: float | None = None
    """Exact upper limit for the share of clusters with another difference, if all observed clusters have the same one."""
    is_skewed: bool | None = False
    """True if the differences are skewed, which makes p values below .05 too frequent, or None if there are too few to
    decide.
    """


def estimate_difference(
    a: TaskValues, b: TaskValues, *, tasks: Labels = None, clusters: Labels = None, confidence: float = 0.95
) -> Difference | TooFewTasks:
    """Estimate the mean of ``a`` minus the mean of ``b``, paired by unit, with equal weight for each task.

    ``a`` and ``b`` hold the values of the repeats of each unit, such as a task under a model; ``tasks`` and ``clusters`` are
    the labels of the units. The p value is the larger of two, from sign flips of complete clusters and from t with the
    cluster-robust error CR2, for any number of clusters; the interval includes the intervals of both. Flips alone are
    overconfident for skewed differences, and t alone for few or discrete ones. If all differences are equal, no interval can be
    estimated, and p is that of sign flips. There are too few clusters if no p value can be as small as ``1 - confidence``.
    """
    differences = compute_differences(a, b, tasks, clusters)
    if isinstance(differences, TooFewTasks):
        return differences
    sizes, required = tuple(map(len, differences.clusters)), required_clusters(1 - confidence) or 0
    if len(sizes) < required:
        return TooFewTasks(sizes, differences.left_out, required)
    return analyse_differences(differences, confidence)


def analyse_differences(differences: ClusterDifferences, confidence: float) -> Difference:
    """Return the mean of task differences with its interval and p value."""
    alpha = 1 - confidence
    sizes = tuple(map(len, differences.clusters))
    counts = (sum(sizes), differences.left_out, sizes, confidence)
    if differences.all_equal:
        mean, limit = differences.mean, 1 - alpha ** (1 / len(sizes))
        if abs(mean) <= EQUAL_SHARE * differences.scale:
            return Difference(0.0, None, 1.0, *counts, limit)
        return Difference(mean, None, 2.0 ** (1 - len(sizes)), *counts, limit)
    test = make_test(differences)
    low, high = test.interval(alpha)
    interval = (max(low, -1.0), min(high, 1.0)) if differences.is_binary else (low, high)
    return Difference(differences.mean, interval, test.p_value(), *counts, is_skewed=find_skew(differences))


def find_skew(differences: ClusterDifferences) -> bool | None:
    """Return whether sums of clusters are skewed, or None if there are too few to decide.

    If the mean of one arm depends on a few large values, each test errs in 13 of 100 comparisons of 29 clusters. With at least
    25 clusters, nine tenths of the comparisons that err are detected as skewed. Source: D'Agostino (1970), Biometrika 57. Marks
    from 0 to 1 have no heavy tail, unless most tasks do not differ and some differ in fewer than half of their runs: if one
    task in ten reacts, intervals of 10 to 15 tasks with 5 repeats miss the true mean in 17 of 100 comparisons.
    """
    if differences.marks is not None:
        differing = [abs(value) for value in differences.tasks if value]
        is_rare = len(differing) < min(MIN_SKEWED, len(differences.tasks) / 2)
        return None if is_rare and min(differing) < 0.5 else False
    if len(differences.clusters) < MIN_SKEWED:
        return None
    residuals = [sum(cluster) - len(cluster) * differences.mean for cluster in differences.clusters]
    return bool(load_extra("scipy.stats").skewtest(residuals).pvalue < 0.05)
