"""Confidence intervals of shares and means, for the quality of detectors."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from math import fsum
from statistics import fmean
from typing import NamedTuple

Z95 = 1.959963984540054
"""Number of standard deviations on either side that cover 95 per cent of a normal distribution."""


RESAMPLES = 2_000


class Share(NamedTuple):
    """A share or a mean with its 95 per cent interval; all None if there is no data."""

    value: float | None = None
    low: float | None = None
    high: float | None = None


def wilson(part: float, whole: float, z: float = Z95) -> Share:
    """Return ``part / whole`` with its Wilson interval, which is reliable even for small numbers and for shares of 0 and 1.

    Source: Wilson (1927), Journal of the American Statistical Association 22; the same as
    ``proportion_confint(method="wilson")`` of statsmodels.
    """
    if not whole:
        return Share()
    share = part / whole
    scale = 1 + z * z / whole
    middle = (share + z * z / (2 * whole)) / scale
    width = z * (share * (1 - share) / whole + z * z / (4 * whole * whole)) ** 0.5 / scale
    return Share(share, middle - width if part else 0.0, middle + width if part < whole else 1.0)  # without rounding errors


def mean_by_task(values: Sequence[Sequence[float]], clusters: Sequence[Hashable] | None = None) -> Share:
    """Return the mean over tasks of their runs' means; the interval treats tasks, not runs, as independent.

    ``clusters``: the tasks' labels, equal for tasks that belong together. For pass/fail values, the interval is Wilson's for
    the effective number of runs: as many as would be equally uncertain. If all tasks pass alike, this is the number of tasks.
    For other values, it is a t interval.
    """
    labels = range(len(values)) if clusters is None else clusters
    means = [(fmean(task), label) for task, label in zip(values, labels, strict=True) if task]
    if not means:
        return Share()
    runs = sum(map(len, values))
    mean = fmean([value for value, _ in means])
    variance, units = clustered_variance(means, mean)
    if not all(value in (0, 1) for task in values for value in task):
        width = t95(units - 1) * (variance * units / (units - 1)) ** 0.5 if units > 1 else None
        return Share(mean, None if width is None else mean - width, None if width is None else mean + width)
    return clustered_share(mean, variance, units, runs)


def clustered_variance(values: Sequence[tuple[float, Hashable]], mean: float) -> tuple[float, int]:
    """Return the variance of the mean of labelled values, and the number of labels; values with one label belong together."""
    sums: dict[Hashable, float] = {}
    for value, label in values:
        sums[label] = sums.get(label, 0.0) + value - mean
    return fsum(total * total for total in sums.values()) / len(values) ** 2, len(sums)


def clustered_share(share: float, variance: float, units: int, runs: int) -> Share:
    """Return a share with Wilson's interval for the effective number of runs. ``units``: the number of independent clusters."""
    effective = min(share * (1 - share) / variance, runs) if variance > 1e-12 else units
    return wilson(share * effective, effective, t95(units - 1) if 1 < units < runs else Z95)


def t95(freedom: int) -> float:
    """Return the half-width of the central 95 per cent of the t distribution, in standard deviations: accurate to 1 per cent
    from 4 degrees upwards.

    Source: Cornish and Fisher (1960), Technometrics 2.
    """
    z, n = Z95, freedom
    terms = (
        (z**3 + z) / 4 / n,
        (5 * z**5 + 16 * z**3 + 3 * z) / 96 / n**2,
        (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384 / n**3,
    )
    return z + sum(terms)


def f1_interval(hits: int, misses: int, false: int) -> Share:
    """Return F1 with an interval derived from that of the Jaccard index J, which is a proportion: F1 = 2 J / (1 + J)."""
    jaccard = wilson(hits, hits + misses + false)
    return Share(*[None if bound is None else 2 * bound / (1 + bound) for bound in jaccard])


def mean_interval(values: Sequence[float]) -> Share:
    """Return the mean with the percentile interval of 2,000 resamples with a fixed seed; a single value gets no interval.

    Suitable for skewed values, such as the rounds and tokens of runs, but too narrow if there are few values. Source: Efron
    (1979).
    """
    if not values:
        return Share()
    mean = sum(values) / len(values)
    if len(values) == 1:
        return Share(mean)
    import numpy as np

    rng, sample = np.random.default_rng(0), np.asarray(values, dtype=float)
    step = max(1, 1_000_000 // len(sample))  # resamples held in memory at a time
    means = [
        sample[rng.integers(0, len(sample), (min(step, remaining), len(sample)))].mean(axis=1)
        for remaining in range(RESAMPLES, 0, -step)
    ]
    low, high = np.percentile(np.concatenate(means), (2.5, 97.5))
    return Share(mean, float(low), float(high))


def difference(one: Share, other: Share) -> Share:
    """Return the difference of two independent shares or means, with an interval derived from theirs.

    Source: Zou and Donner (2008), Statistics in Medicine 27 (MOVER); with Wilson intervals it is Newcombe's.
    """
    if one.value is None or other.value is None:
        return Share()
    value = one.value - other.value
    if one.low is None or one.high is None or other.low is None or other.high is None:
        return Share(value)
    lower_width = ((one.value - one.low) ** 2 + (other.high - other.value) ** 2) ** 0.5
    upper_width = ((one.high - one.value) ** 2 + (other.value - other.low) ** 2) ** 0.5
    return Share(value, value - lower_width, value + upper_width)


def auc(values: Sequence[tuple[float, bool]]) -> float | None:
    """Return the probability that a positive has a higher value than a negative, counting a tie as half. Returns None unless
    there are both.
    """
    positive = [value for value, is_positive in values if is_positive]
    negative = [value for value, is_positive in values if not is_positive]
    if not positive or not negative:
        return None
    wins = sum((high > low) + (high == low) / 2 for high in positive for low in negative)
    return wins / (len(positive) * len(negative))
