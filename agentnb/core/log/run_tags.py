"""Tags that name the task and the variant of a run, and values of such runs by task."""

from __future__ import annotations

from collections.abc import Iterable
from statistics import fmean
from typing import Protocol

VARIANT_TAG = "variant:"
"""Prefix of the tag that names a run's variant."""
TASK_TAG = "task:"
"""Prefix of the tag that names a run's task."""


class TaskRow(Protocol):
    """A run of a task, with its values."""

    @property
    def task(self) -> str:
        """Id of its task."""

    def value(self, name: str, /) -> float | None:
        """Return the value of a check or measure, or None if unknown."""


def find_tag(tags: Iterable[str], prefix: str) -> str:
    """Return the text after this prefix in the first tag that has it; empty if no tag has it."""
    return next((tag.removeprefix(prefix) for tag in tags if tag.startswith(prefix)), "")


def values_by_task(rows: Iterable[TaskRow], name: str) -> dict[str, list[float]]:
    """Return the known values of a check or measure by task."""
    values: dict[str, list[float]] = {}
    for row in rows:
        if (value := row.value(name)) is not None:
            values.setdefault(row.task, []).append(value)
    return values


def task_means(rows: Iterable[TaskRow], name: str) -> dict[str, float]:
    """Return the mean of a check or measure for each task that has a known value."""
    return {task: fmean(values) for task, values in values_by_task(rows, name).items()}
