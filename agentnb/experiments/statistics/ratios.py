"""Ratios of costs, tokens or seconds of two arms within tasks."""

from __future__ import annotations

from collections.abc import Sequence
from math import exp, log
from typing import NamedTuple

from agentnb.experiments.statistics.paired import Method, estimate_difference
from agentnb.experiments.statistics.tasks import TooFewTasks, compute_mean


class Ratio(NamedTuple):
    """Geometric mean over tasks of the ratio of two arms."""

    value: float
    interval: tuple[float, float] | None
    """Limits of the true ratio, as in `Difference`; 0 and infinity for too few tasks."""
    p_value: float
    """Two-sided p value of a ratio of 1."""
    tasks: int
    left_out: int
    """Tasks with a value that is missing, zero or negative, or without one in an arm."""
    method: Method
    confidence: float
    deviation: float
    """Standard deviation of the logarithms of the ratios of tasks."""


def estimate_ratio(
    a: Sequence[Sequence[float | None]], b: Sequence[Sequence[float | None]], *, confidence: float = 0.95
) -> Ratio | TooFewTasks:
    """Estimate how many times the values of ``b`` those of ``a`` are: the ratio of means by task, averaged on logarithms.

    Interval and p value are those of `estimate_difference` for the logarithms. Tasks with a missing value, or one that is not
    positive, are left out and counted.
    """
    logs = [_compute_logs(one, other) for one, other in zip(a, b, strict=True)]
    difference = estimate_difference([one for one, _ in logs], [other for _, other in logs], confidence=confidence)
    if isinstance(difference, TooFewTasks):
        return difference
    interval = difference.interval and (exp(difference.interval[0]), exp(difference.interval[1]))
    return Ratio(
        exp(difference.value),
        interval,
        difference.p_value,
        difference.tasks,
        difference.left_out,
        difference.method,
        confidence,
        difference.deviation,
    )


def _compute_logs(a: Sequence[float | None], b: Sequence[float | None]) -> tuple[list[float], list[float]]:
    known_a, known_b = ([value for value in arm if value is not None and value > 0] for arm in (a, b))
    if not known_a or not known_b or len(known_a) < len(a) or len(known_b) < len(b):
        return [], []
    return [log(compute_mean(known_a))], [log(compute_mean(known_b))]
