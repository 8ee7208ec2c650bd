"""Acceptance of a candidate: a paired test at each look, and tasks that must not get worse.

The looks at a candidate are fixed in advance, one after each fold, and the level is divided among them. A candidate that is not
ahead at a look is refused immediately, which does not increase the error rate. Source: Bonferroni's inequality.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from statistics import fmean
from typing import NamedTuple

from agentnb.experiments.results.comparison import Comparison
from agentnb.experiments.results.rows import Row
from agentnb.experiments.statistics.paired import Difference

LEVEL = 0.1
"""Two-sided level across all looks at a candidate: at most 5 in 100 candidates that are no improvement are accepted."""


class Look(NamedTuple):
    """The decision at a look at a candidate."""

    accepted: bool | None
    """True if the candidate is accepted, or None if the next fold decides."""
    difference: float | None
    """Candidate minus best, by task, or None if too few tasks are paired."""


def look_at(comparison: Comparison, looks: int, *, is_last: bool) -> Look:
    """Decide on a candidate at one of ``looks`` looks. ``comparison``: candidate minus best."""
    analysis = comparison.analysis
    if not isinstance(analysis, Difference):
        return Look(False if is_last else None, None)
    if analysis.value <= 0:
        return Look(False, analysis.value)
    if analysis.p_value <= LEVEL / looks:
        return Look(True, analysis.value)
    return Look(False if is_last else None, analysis.value)


def find_regressions(candidate: Iterable[Row], best: Iterable[Row], primary: str, keep: Sequence[str]) -> list[str]:
    """Return the tasks in ``keep`` on which a candidate is worse than the best. A missing value counts as the worst."""
    after, before = (_means(rows, primary, keep) for rows in (candidate, best))
    return [task for task, value in before.items() if task not in after or after[task] < value]


def _means(rows: Iterable[Row], primary: str, keep: Sequence[str]) -> dict[str, float]:
    values: dict[str, list[float | None]] = {}
    for row in rows:
        if row.task in keep:
            values.setdefault(row.task, []).append(row.value(primary))
    return {
        task: fmean(known)
        for task, of_task in values.items()
        if len(known := [value for value in of_task if value is not None]) == len(of_task)
    }
