"""Equivalence of two arms within a margin: two one-sided tests."""

from __future__ import annotations

from typing import NamedTuple

from agentnb.experiments.statistics.extras import load_extra
from agentnb.experiments.statistics.paired import Method, analyse_differences
from agentnb.experiments.statistics.sign_flips import flip_signs
from agentnb.experiments.statistics.tasks import TaskDifferences, TaskValues, TooFewTasks, compute_task_differences


class Equivalence(NamedTuple):
    """Two one-sided tests of a mean difference against a margin."""

    is_equivalent: bool
    """True if the difference is shown to be within the margin; False shows nothing."""
    p_value: float | None
    """The larger of the p values of both tests; None if the differences of all tasks are equal."""
    interval: tuple[float, float] | None
    """Interval with confidence ``1 - 2 * alpha``: within the margin exactly if the arms are equivalent."""
    margin: float
    value: float
    """Mean difference."""
    tasks: int
    left_out: int
    method: Method
    max_exception_share: float | None
    """As in `Difference`."""


def assess_equivalence(a: TaskValues, b: TaskValues, margin: float, *, alpha: float = 0.05) -> Equivalence | TooFewTasks:
    """Test whether the mean difference within tasks is smaller than ``margin`` in both directions.

    By t from 30 tasks on, else by sign flips. Equal differences of all tasks show no equivalence: rare differences may not have
    been drawn, see ``max_exception_share``. Source: Schuirmann (1987), Journal of Pharmacokinetics and Biopharmaceutics 15.
    """
    if not margin > 0:
        raise ValueError(f"margin= must be positive, got {margin!r}")
    differences = compute_task_differences(a, b)
    if isinstance(differences, TooFewTasks):
        return differences
    estimate = analyse_differences(differences, 1 - 2 * alpha)
    p_value = None if estimate.interval is None else _compute_p_value(differences, margin, estimate.method, estimate.deviation)
    return Equivalence(
        p_value is not None and p_value < alpha,
        p_value,
        estimate.interval,
        margin,
        estimate.value,
        estimate.tasks,
        estimate.left_out,
        estimate.method,
        estimate.max_exception_share,
    )


def _compute_p_value(differences: TaskDifferences, margin: float, method: Method, deviation: float) -> float:
    mean, tasks = differences.mean, len(differences.values)
    if method == "sign_flips":
        test = flip_signs(differences.values)
        if abs(mean) < margin:
            return max(test.p_value(margin), test.p_value(-margin)) / 2
        return 1 - test.exceeding_share(margin if mean > 0 else -margin) / 2
    return float(load_extra("scipy.special").stdtr(tasks - 1, (abs(mean) - margin) / (deviation / tasks**0.5)))
