"""The values of tasks, on which every comparison is based."""

from __future__ import annotations

from collections.abc import Sequence
from math import fsum, isfinite
from typing import NamedTuple, TypeAlias

MIN_TASKS = 6
"""Minimum number of tasks, or clusters of tasks, for any estimate; with 5, sign flips never have a p value below .05."""
ALPHA = 0.05
"""Significance level of a test or, with planned looks, of all looks together."""
EQUAL_SHARE = 1e-12
"""Relative tolerance within which values count as equal; rounding errors are smaller."""

TaskValues: TypeAlias = Sequence[Sequence[float]]
"""The values of the repeats of each task, or of each unit, such as a task under a model."""


class TooFewTasks(NamedTuple):
    """A shortage of tasks; returned in place of an estimate."""

    sizes: tuple[int, ...]
    """Number of tasks in each cluster that have a value in both arms; all 1 if there are no clusters."""
    left_out: int
    """Number of units without a value in one of the arms."""
    required: int = MIN_TASKS
    """Minimum number of clusters."""

    @property
    def tasks(self) -> int:
        """Number of tasks with a value in both arms."""
        return sum(self.sizes)

    @property
    def shortage(self) -> str:
        """The numbers available and required, in words."""
        count, unit = len(self.sizes), "cluster" if self.tasks > len(self.sizes) else "task"
        return f"{count} paired {unit}{'' if count == 1 else 's'}, {self.required} are needed"

    @property
    def remedy(self) -> str:
        """Advice on what to add."""
        return "add tasks from other clusters" if self.tasks > len(self.sizes) else "add tasks"


def compute_mean(values: Sequence[float]) -> float:
    """Return the mean. Raises ValueError if a value is infinite or NaN."""
    mean = fsum(values) / len(values)
    if not isfinite(mean):
        raise ValueError("A value of a task is infinite or NaN: leave missing values out")
    return mean
