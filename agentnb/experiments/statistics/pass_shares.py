"""Pass^k: the probability that k runs of a task all pass."""

from __future__ import annotations

from collections.abc import Hashable
from math import comb
from typing import Literal, NamedTuple, TypeAlias

from agentnb.detect.intervals import mean_interval, wilson
from agentnb.experiments.statistics.clusters import Labels
from agentnb.experiments.statistics.task_values import MIN_TASKS, TaskValues, compute_mean

BandMethod: TypeAlias = Literal["bootstrap", "wilson"]


class PassShare(NamedTuple):
    """Estimated pass^k, averaged over tasks."""

    k: int
    value: float
    interval: tuple[float, float] | None
    """95 per cent band, or None if there are fewer than 6 tasks."""
    tasks: int
    """Number of tasks with at least k repeats; other tasks are left out for this k."""
    method: BandMethod | None
    """``bootstrap``: percentiles of 2,000 resamples of the tasks, with a fixed seed. ``wilson``: used if the value of every
    task is 0 or 1.
    """


def estimate_all_pass(passes: TaskValues, *, tasks: Labels = None) -> tuple[PassShare, ...]:
    """Estimate pass^k, the probability that k runs of a task all pass, for k from 1 to the maximum number of repeats.

    ``passes`` holds 1 or 0 for each repeat of each unit, such as a task under a model; ``tasks`` are the labels of the units. A
    unit with c passes in n repeats counts as C(c, k) / C(n, k), averaged within its task. Source: Yao et al. (2024), tau-bench,
    arXiv 2406.12045.
    """
    counts = [(task, int(sum(unit)), len(unit)) for task, unit in zip(tasks or range(len(passes)), passes, strict=True)]
    most = max((repeats for *_, repeats in counts), default=0)
    return tuple(_average(k, counts) for k in range(1, most + 1))


def _average(k: int, counts: list[tuple[Hashable, int, int]]) -> PassShare:
    units: dict[Hashable, list[float]] = {}
    for task, passed, repeats in counts:
        if repeats >= k:
            units.setdefault(task, []).append(comb(passed, k) / comb(repeats, k))
    shares, tasks = [*map(compute_mean, units.values())], len(units)
    if tasks < MIN_TASKS:
        return PassShare(k, compute_mean(shares), None, tasks, None)
    binary = all(share in (0, 1) for share in shares)
    _, low, high = wilson(int(sum(shares)), tasks) if binary else mean_interval(shares)
    interval = None if low is None or high is None else (low, high)
    return PassShare(k, compute_mean(shares), interval, tasks, "wilson" if binary else "bootstrap")
