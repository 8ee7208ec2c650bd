"""Equivalence of two arms within a margin, tested by two one-sided tests."""

from __future__ import annotations

from typing import NamedTuple

from agentnb.experiments.statistics.clusters import Labels, compute_differences, make_test
from agentnb.experiments.statistics.paired import analyse_differences
from agentnb.experiments.statistics.task_values import TaskValues, TooFewTasks


class Equivalence(NamedTuple):
    """Two one-sided tests of a mean difference against a margin."""

    is_equivalent: bool
    """True if the difference is shown to be within the margin; False means inconclusive."""
    p_value: float | None
    """The larger p value of the two tests, or None if the differences of all clusters are equal."""
    interval: tuple[float, float] | None
    """Interval with confidence ``1 - 2 * alpha``, which lies within the margin if and only if the arms are equivalent."""
    margin: float
    value: float
    """The mean difference."""
    tasks: int
    left_out: int
    max_exception_share: float | None
    """As in `Difference`."""
    confidence: float
    """Of the interval, in percent."""
    turned_by: int = 0
    """Number of missing values that could change ``is_equivalent``, or 0 if their extremes do not."""

    def __repr__(self) -> str:
        shown = (
            f"Equivalence within a margin of {self.margin:g} is {'' if self.is_equivalent else 'not '}shown: the difference is"
        )
        turned = f"; missing values ({self.turned_by:,}) could change this" if self.turned_by else ""
        if self.interval is None or self.p_value is None:
            return f"{shown} {self.value:.2g} throughout, and rare others may not have been drawn ({self.tasks} tasks){turned}"
        low, high = self.interval
        p_value = "p < 0.0001" if self.p_value < 0.0001 else f"p = {self.p_value:.2g}"
        interval = f"{self.confidence:g} % interval {low:.2g} to {high:.2g}"
        return f"{shown} {self.value:.2g}, {interval}, {p_value}, {self.tasks} tasks{turned}"


def assess_equivalence(
    a: TaskValues, b: TaskValues, margin: float, *, tasks: Labels = None, clusters: Labels = None, alpha: float = 0.05
) -> Equivalence | TooFewTasks:
    """Test whether the mean difference within tasks is smaller than ``margin`` in both directions.

    Uses the tests of `estimate_difference`. Equal differences do not show equivalence, since rare differences may not have been
    drawn; see ``max_exception_share``. Source: Schuirmann (1987), Journal of Pharmacokinetics and Biopharmaceutics 15.
    """
    differences = compute_differences(a, b, tasks, clusters)
    if isinstance(differences, TooFewTasks):
        return differences
    estimate = analyse_differences(differences, 1 - 2 * alpha)
    p_value = None
    if estimate.interval is not None:
        test = make_test(differences)
        far = [test.p_value(limit) / 2 for limit in (margin, -margin)]
        p_value = max(far) if abs(estimate.value) < margin else 1 - min(far)
    return Equivalence(
        p_value is not None and p_value < alpha,
        p_value,
        estimate.interval,
        margin,
        estimate.value,
        estimate.tasks,
        estimate.left_out,
        estimate.max_exception_share,
        round(100 * (1 - 2 * alpha), 6),
    )
