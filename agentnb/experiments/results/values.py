"""The values of rows by task, as the statistics take them: clusters with a value in both arms, in one order."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TypeAlias

from agentnb.experiments.results.rows import Row

Measure: TypeAlias = Callable[[Row], float | None]
ByTask: TypeAlias = dict[str, list[float]]
Unit: TypeAlias = tuple[str, str]
"""What counts once: a cluster of tasks, or a task."""


def task_values(a: Iterable[Row], b: Iterable[Row], name: str) -> tuple[list[list[float]], list[list[float]]]:
    """Return the known values of a check or measure in two arms, by task, for all tasks that either has."""

    def measure(row: Row) -> float | None:
        return row.value(name)

    by_a, by_b = by_task(a, measure), by_task(b, measure)
    tasks = sorted({*by_a, *by_b})  # resampling depends on the order, and runs finish in any
    return [by_a.get(task, []) for task in tasks], [by_b.get(task, []) for task in tasks]


def by_task(rows: Iterable[Row], measure: Measure) -> ByTask:
    """Return the known values of rows by task; tasks without a known value have none."""
    found: ByTask = {}
    for row in rows:
        values = found.setdefault(row.task, [])
        value = measure(row)
        if value is not None:
            values.append(value)
    return found


def unit_of(row: Row) -> Unit:
    """Return the unit that a row counts for: its cluster, else its task."""
    return ("cluster", row.cluster) if row.cluster else ("task", row.task)


def cluster_means(rows: Sequence[Row], tasks: Sequence[Sequence[float]], order: Sequence[str]) -> dict[Unit, list[float]]:
    """Return the means of tasks by cluster; ``tasks``: their values in the order of ``order``."""
    of = {row.task: unit_of(row) for row in rows}
    found: dict[Unit, list[float]] = {}
    for task, values in zip(order, tasks, strict=True):
        if values:
            found.setdefault(of[task], []).append(sum(values) / len(values))
    return found
