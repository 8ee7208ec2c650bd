"""Ratios between the costs, tokens or seconds of two arms, compared within tasks."""

from __future__ import annotations

from collections.abc import Sequence
from math import exp, log
from typing import NamedTuple

from agentnb.experiments.statistics.clusters import Labels
from agentnb.experiments.statistics.paired import estimate_difference
from agentnb.experiments.statistics.task_values import TooFewTasks, compute_mean


class Ratio(NamedTuple):
    """The geometric mean over tasks of the ratio between two arms."""

    value: float
    interval: tuple[float, float] | None
    """Limits of the true ratio, as in `Difference`."""
    p_value: float
    """Two-sided p value for a ratio of 1."""
    tasks: int
    left_out: int
    """Number of units with a missing, zero or negative value, or without a value in one of the arms."""
    sizes: tuple[int, ...]
    """Number of tasks in each cluster; all 1 if there are no clusters."""


def estimate_ratio(
    a: Sequence[Sequence[float | None]],
    b: Sequence[Sequence[float | None]],
    *,
    tasks: Labels = None,
    clusters: Labels = None,
) -> Ratio | TooFewTasks:
    """Estimate ``a`` divided by ``b``: the ratio of means by unit, averaged on a log scale.

    The interval and p value are those of `estimate_difference` for the logarithms, with the same labels. Units with a missing
    or non-positive value are left out and counted.
    """
    logs = [_compute_logs(values_a, values_b) for values_a, values_b in zip(a, b, strict=True)]
    arms = [log_a for log_a, _ in logs], [log_b for _, log_b in logs]
    difference = estimate_difference(*arms, tasks=tasks, clusters=clusters)
    if isinstance(difference, TooFewTasks):
        return difference
    interval = difference.interval and (exp(difference.interval[0]), exp(difference.interval[1]))
    counts = (difference.tasks, difference.left_out, difference.sizes)
    return Ratio(exp(difference.value), interval, difference.p_value, *counts)


def _compute_logs(a: Sequence[float | None], b: Sequence[float | None]) -> tuple[list[float], list[float]]:
    known_a, known_b = ([value for value in arm if value is not None and value > 0] for arm in (a, b))
    if not known_a or not known_b or len(known_a) < len(a) or len(known_b) < len(b):
        return [], []
    return [log(compute_mean(known_a))], [log(compute_mean(known_b))]
