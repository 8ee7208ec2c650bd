"""Values of tasks, which every comparison is about."""

from __future__ import annotations

from collections.abc import Sequence
from math import fsum, isfinite
from typing import NamedTuple, TypeAlias

MIN_TASKS = 6
"""Fewest tasks, or clusters of tasks, of which anything is said: with 5, no p value of sign flips is below .05."""
ALPHA = 0.05
"""Level of a test; of all planned looks together where there are several."""
EQUAL_SHARE = 1e-12
"""Share of their size by which two values may differ and still count as equal: rounding errors are smaller."""

TaskValues: TypeAlias = Sequence[Sequence[float]]
"""The values of the repeats of each task, or of each unit, such as a task under a model."""


class TooFewTasks(NamedTuple):
    """What is missing for a comparison, in place of a number."""

    sizes: tuple[int, ...]
    """Number of tasks with a value in both arms, of each cluster; all 1 where tasks belong to none."""
    left_out: int
    """Units without a value in one of the arms."""
    required: int = MIN_TASKS
    """Fewest clusters."""

    @property
    def tasks(self) -> int:
        """Tasks with a value in both arms."""
        return sum(self.sizes)

    @property
    def shortage(self) -> str:
        """How many there are, and how many are needed, as words."""
        count, unit = len(self.sizes), "cluster" if self.tasks > len(self.sizes) else "task"
        return f"{count} paired {unit}{'' if count == 1 else 's'}, {self.required} are needed"

    @property
    def remedy(self) -> str:
        """What to add, as words."""
        return "add tasks of other clusters" if self.tasks > len(self.sizes) else "add tasks"


def compute_mean(values: Sequence[float]) -> float:
    """Return the mean. Raises ValueError for a value that is infinite or NaN."""
    mean = fsum(values) / len(values)
    if not isfinite(mean):
        raise ValueError("A value of a task is infinite or NaN: leave missing values out")
    return mean
