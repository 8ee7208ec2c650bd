"""Intervals of shares, for the quality of detectors."""

from __future__ import annotations

from typing import NamedTuple

Z95 = 1.959963984540054
"""Standard deviations of a normal distribution on either side that hold 95 per cent of it."""


class Share(NamedTuple):
    """A share with its 95 per cent interval; all None where there is nothing to take a share of."""

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


def auc(values: list[tuple[float, bool]]) -> float | None:
    """Return the probability that a positive has a higher value than a negative, ties counted as half; None without both."""
    positive = [value for value, is_positive in values if is_positive]
    negative = [value for value, is_positive in values if not is_positive]
    if not positive or not negative:
        return None
    wins = sum((one > other) + (one == other) / 2 for one in positive for other in negative)
    return wins / (len(positive) * len(negative))
