"""Difference of two arms within tasks, with its interval and p value."""

from __future__ import annotations

from typing import Literal, NamedTuple, TypeAlias

from agentnb.experiments.statistics.extras import load_extra
from agentnb.experiments.statistics.sign_flips import flip_signs
from agentnb.experiments.statistics.tasks import MIN_T_TASKS, TaskDifferences, TaskValues, TooFewTasks, compute_task_differences

Method: TypeAlias = Literal["clustered_t", "sign_flips", "none_differs", "all_differ_alike"]


class Difference(NamedTuple):
    """Mean difference of two arms over tasks."""

    value: float
    interval: tuple[float, float] | None
    """Limits of the true mean, None if the differences of all tasks are equal.

    Both are infinite if even the smallest p value that sign flips can have is too large: with 5 tasks at 95 per cent.
    """
    p_value: float
    """Two-sided p value of no difference: below ``1 - confidence`` exactly if 0 lies outside the interval."""
    tasks: int
    left_out: int
    """Tasks without a value in one of the arms."""
    method: Method
    confidence: float
    deviation: float
    """Standard deviation of the differences of tasks."""
    max_exception_share: float | None = None
    """If the differences of all tasks are equal: exact upper limit of the share of tasks with another one."""


def estimate_difference(a: TaskValues, b: TaskValues, *, confidence: float = 0.95) -> Difference | TooFewTasks:
    """Estimate the mean of ``a`` minus the mean of ``b``, paired by task, each task with equal weight.

    From 30 tasks on by t with tasks - 1 degrees of freedom, which is the standard error clustered by task (Miller 2024, arXiv
    2411.00640); with fewer by sign flips. Where all differences are equal no interval can be estimated: ``method`` is
    ``none_differs`` if they are 0, else ``all_differ_alike``, and the p value is that of sign flips.
    """
    differences = compute_task_differences(a, b)
    return differences if isinstance(differences, TooFewTasks) else analyse_differences(differences, confidence)


def analyse_differences(differences: TaskDifferences, confidence: float) -> Difference:
    """Return the mean of differences of tasks with the interval and p value of the method that fits their number."""
    alpha = compute_alpha(confidence)
    values, left_out, size = differences
    tasks, mean = len(values), differences.mean
    if differences.all_equal:
        limit = 1 - alpha ** (1 / tasks)
        if abs(mean) <= 1e-12 * size:
            return Difference(0.0, None, 1.0, tasks, left_out, "none_differs", confidence, 0.0, limit)
        return Difference(mean, None, 2.0 ** (1 - tasks), tasks, left_out, "all_differ_alike", confidence, 0.0, limit)
    deviation = compute_deviation(values, mean)
    if tasks < MIN_T_TASKS:
        test = flip_signs(values)
        return Difference(mean, test.interval(alpha), test.p_value(), tasks, left_out, "sign_flips", confidence, deviation)
    special = load_extra("scipy.special")
    error = deviation / tasks**0.5
    width = float(special.stdtrit(tasks - 1, 1 - alpha / 2)) * error
    p_value = 2 * float(special.stdtr(tasks - 1, -abs(mean) / error))
    return Difference(mean, (mean - width, mean + width), p_value, tasks, left_out, "clustered_t", confidence, deviation)


def compute_deviation(values: list[float], mean: float) -> float:
    """Return the standard deviation of a sample."""
    return float((sum((value - mean) ** 2 for value in values) / (len(values) - 1)) ** 0.5)


def compute_alpha(confidence: float) -> float:
    """Return the level of a test from the confidence of its interval. Raises ValueError unless it is between 0 and 1."""
    if not 0 < confidence < 1:
        raise ValueError(f"confidence= must be between 0 and 1, got {confidence!r}")
    return 1 - confidence
