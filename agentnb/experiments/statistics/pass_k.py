"""pass^k: how often k runs of a task all pass."""

from __future__ import annotations

from math import comb
from typing import Literal, NamedTuple, TypeAlias

from agentnb.detect.intervals import mean_interval, wilson
from agentnb.experiments.statistics.tasks import MIN_TASKS, TaskValues

BandMethod: TypeAlias = Literal["bootstrap", "wilson"]


class PassShare(NamedTuple):
    """Estimated share of tasks that pass with k runs, averaged over tasks."""

    k: int
    value: float | None
    """None if no task has k repeats."""
    interval: tuple[float, float] | None
    """Band of 95 per cent, None under 5 tasks."""
    tasks: int
    """Tasks with at least k repeats: the others say nothing about k."""
    method: BandMethod | None
    """``bootstrap``: percentiles of 2,000 resamples of the tasks, always the same ones. ``wilson`` if every task has 0 or 1."""


def estimate_all_pass(passes: TaskValues, max_k: int | None = None) -> tuple[PassShare, ...]:
    """Estimate pass^k, the probability that k runs of a task all pass, for k from 1 to the most repeats of a task.

    ``passes`` holds 1 or 0 for each repeat of each task. A task with c passes in n repeats counts C(c, k) / C(n, k).
    Source: Yao et al. (2024), tau-bench, arXiv 2406.12045.
    """
    if any(value not in (0, 1) for task in passes for value in task):
        raise ValueError("pass^k takes passes and fails: 1 and 0")
    counts = [(int(sum(task)), len(task)) for task in passes]
    most = max((repeats for _, repeats in counts), default=0) if max_k is None else max_k
    return tuple(
        _average(k, [comb(passed, k) / comb(repeats, k) for passed, repeats in counts if repeats >= k])
        for k in range(1, most + 1)
    )


def _average(k: int, shares: list[float]) -> PassShare:
    tasks = len(shares)
    if not shares:
        return PassShare(k, None, None, 0, None)
    if tasks < MIN_TASKS:
        return PassShare(k, sum(shares) / tasks, None, tasks, None)
    binary = all(share in (0, 1) for share in shares)
    value, low, high = wilson(int(sum(shares)), tasks) if binary else mean_interval(shares)
    interval = None if low is None or high is None else (low, high)
    return PassShare(k, value, interval, tasks, "wilson" if binary else "bootstrap")
