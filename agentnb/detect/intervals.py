"""Intervals of shares and means, for the quality of detectors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

Z95 = 1.959963984540054
"""Standard deviations of a normal distribution on either side that hold 95 per cent of it."""


RESAMPLES = 2_000


class Share(NamedTuple):
    """A share or a mean with its 95 per cent interval; all None where there is nothing to take it of."""

    value: float | None
    low: float | None
    high: float | None


def wilson(part: int, whole: int, z: float = Z95) -> Share:
    """Return ``part / whole`` with its Wilson interval, which is sound for small numbers and for shares of 0 and 1.

    Source: Wilson (1927), Journal of the American Statistical Association 22; as ``proportion_confint(method="wilson")`` of
    statsmodels.
    """
    if not whole:
        return Share(None, None, None)
    share = part / whole
    scale = 1 + z * z / whole
    middle = (share + z * z / (2 * whole)) / scale
    width = z * (share * (1 - share) / whole + z * z / (4 * whole * whole)) ** 0.5 / scale
    return Share(share, middle - width if part else 0.0, middle + width if part < whole else 1.0)  # without rounding errors


def f1_interval(hits: int, misses: int, false: int) -> Share:
    """Return F1 with an interval: that of the Jaccard index J, a share of its own, as F1 = 2 J / (1 + J)."""
    jaccard = wilson(hits, hits + misses + false)
    return Share(*[None if one is None else 2 * one / (1 + one) for one in jaccard])


def mean_interval(values: Sequence[float]) -> Share:
    """Return the mean with the percentile interval of 2,000 resamples, always the same ones; one value has no interval.

    Sound for skewed values, such as rounds and tokens of runs, although too narrow for a few. Source: Efron (1979).
    """
    if not values:
        return Share(None, None, None)
    mean = sum(values) / len(values)
    if len(values) == 1:
        return Share(mean, None, None)
    import numpy as np

    rng, known = np.random.default_rng(0), np.asarray(values, dtype=float)
    step = max(1, 1_000_000 // len(known))  # resamples at a time: they are held in memory
    means = [
        known[rng.integers(0, len(known), (min(step, left), len(known)))].mean(axis=1) for left in range(RESAMPLES, 0, -step)
    ]
    low, high = np.percentile(np.concatenate(means), (2.5, 97.5))
    return Share(mean, float(low), float(high))


def difference(one: Share, other: Share) -> Share:
    """Return the difference of two independent shares or means, its interval from theirs.

    Source: Zou and Donner (2008), Statistics in Medicine 27 (MOVER); with intervals of Wilson it is that of Newcombe.
    """
    if one.value is None or other.value is None:
        return Share(None, None, None)
    value = one.value - other.value
    if one.low is None or one.high is None or other.low is None or other.high is None:
        return Share(value, None, None)
    below = ((one.value - one.low) ** 2 + (other.high - other.value) ** 2) ** 0.5
    above = ((one.high - one.value) ** 2 + (other.value - other.low) ** 2) ** 0.5
    return Share(value, value - below, value + above)


def auc(values: list[tuple[float, bool]]) -> float | None:
    """Return the probability that a positive has a higher value than a negative, ties counted as half; None without both."""
    positive = [value for value, is_positive in values if is_positive]
    negative = [value for value, is_positive in values if not is_positive]
    if not positive or not negative:
        return None
    wins = sum((one > other) + (one == other) / 2 for one in positive for other in negative)
    return wins / (len(positive) * len(negative))
