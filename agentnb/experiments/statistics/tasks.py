"""Differences within tasks, which every paired comparison is about."""

from __future__ import annotations

from collections.abc import Sequence
from math import fsum, isfinite
from typing import NamedTuple, TypeAlias

MIN_TASKS = 5
"""Fewest tasks that are compared."""
MIN_T_TASKS = 30
"""Tasks from which on intervals are those of t; with fewer they come from sign flips."""
EQUAL_SHARE = 1e-12
"""Share of their size by which two values may differ and still count as equal: rounding errors are smaller."""

TaskValues: TypeAlias = Sequence[Sequence[float]]
"""The values of the repeats of each task."""


class TooFewTasks(NamedTuple):
    """What is missing for a comparison, in place of a number."""

    tasks: int
    """Tasks with a value in both arms."""
    left_out: int
    """Tasks without one."""
    required: int = MIN_TASKS


class TaskDifferences(NamedTuple):
    """Mean of the first arm minus mean of the second, by task."""

    values: list[float]
    left_out: int
    """Tasks without a value in one of the arms."""
    size: float
    """Largest absolute mean of a task: the scale of rounding errors."""

    @property
    def mean(self) -> float:
        """Their mean."""
        return fsum(self.values) / len(self.values)

    @property
    def all_equal(self) -> bool:
        """True if no difference differs from another by more than rounding errors."""
        return max(self.values) - min(self.values) <= EQUAL_SHARE * self.size


def compute_task_differences(a: TaskValues, b: TaskValues) -> TaskDifferences | TooFewTasks:
    """Subtract the mean of ``b`` from that of ``a`` within each task that has a value in both.

    Raises ValueError if the arms have different numbers of tasks, or for a value that is infinite or NaN.
    """
    means = [(compute_mean(one), compute_mean(other)) for one, other in zip(a, b, strict=True) if len(one) and len(other)]
    left_out = len(a) - len(means)
    if len(means) < MIN_TASKS:
        return TooFewTasks(len(means), left_out)
    values = [one - other for one, other in means]
    return TaskDifferences(values, left_out, max(max(abs(one), abs(other)) for one, other in means))


def compute_mean(values: Sequence[float]) -> float:
    """Return the mean. Raises ValueError for a value that is infinite or NaN."""
    mean = fsum(values) / len(values)
    if not isfinite(mean):
        raise ValueError("A value of a task is infinite or NaN: leave missing values out")
    return mean
