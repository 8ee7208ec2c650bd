"""Pilot runs: estimates of variance, clustering, cost and time from a few runs, without the variants' means."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from statistics import fmean

from agentnb.core.log.run_tags import values_by_task
from agentnb.experiments.results.rows import Row
from agentnb.experiments.results.values import cell_values, differences_of
from agentnb.experiments.statistics.power import (
    Components,
    compute_task_deviation,
    estimate_components,
    estimate_intraclass_correlation,
)


@dataclass(frozen=True, slots=True)
class Pilot:
    """Estimates from pilot runs. The variants' means are omitted, because a plan based on them would be biased."""

    runs: int
    tasks: int
    components: Components | None
    """Variance components of the differences between two variants, for the pair that differs most; None if the pilot is too
    small.
    """
    clustering: float | None
    """Similarity of a task's repeats: the intraclass correlation, averaged over variants, or None if unknown."""
    cost: float | None
    """US dollars per run, including its judging; None if unknown."""
    seconds: float | None
    """Seconds per run, or None if unknown."""
    reasons: tuple[tuple[str, str], ...] = ()
    """Incomplete runs, each with its reason."""
    pass_rate: float | None = None
    """Share of runs that pass, across all variants, kept at least half a run away from 0 and 1; None if the primary is not
    pass/fail.
    """

    def deviation(self, repeats: int) -> float | None:
        """Return the standard deviation of task differences with this number of repeats, or None if unknown."""
        return None if self.components is None else compute_task_deviation(self.components, repeats)

    def __repr__(self) -> str:
        clustering = "unknown" if self.clustering is None else f"{self.clustering:.2f}"
        cost = "unknown" if self.cost is None else f"${self.cost:.4g}"
        seconds = "unknown" if self.seconds is None else f"{self.seconds:.3g} s"
        failed = f", {len(self.reasons)} did not complete" if self.reasons else ""
        deviation = self.deviation(1)
        spread = "unknown" if deviation is None else f"{deviation:.2f}"
        return (
            f"Pilot of {self.runs} runs over {self.tasks} tasks{failed}: standard deviation of task differences {spread}, "
            f"clustering {clustering}, cost per run {cost}, time per run {seconds}. Means by variant are not shown"
        )


def pilot_of(primary: str, rows: Sequence[Row], variants: Sequence[str]) -> Pilot:
    """Estimate the primary's variance, the cost and the time from the rows of a pilot."""
    arms = [[row for row in rows if row.variant == name] for name in variants]
    pairs = combinations([cell_values(arm, primary) for arm in arms], 2)
    components = [estimate for a, b in pairs if (estimate := estimate_components(differences_of(a, b))) is not None]
    values_by_arm = [[*values_by_task(arm, primary).values()] for arm in arms]
    correlations = [
        correlation for values in values_by_arm if (correlation := estimate_intraclass_correlation(values)) is not None
    ]
    values = [value for row in rows if (value := row.value(primary)) is not None]
    passes = {*values} <= {0.0, 1.0} and values
    costs, seconds = [row.spent for row in rows], [row.seconds for row in rows if row.seconds is not None]
    return Pilot(
        runs=len(rows),
        tasks=len({row.task for row in rows}),
        components=max(components, key=lambda estimate: compute_task_deviation(estimate, 1), default=None),
        clustering=fmean(correlations) if correlations else None,
        cost=fmean([cost or 0.0 for cost in costs]) if costs and None not in costs else None,
        seconds=fmean(seconds) if seconds else None,
        reasons=tuple([(row.run_id, row.reason) for row in rows if not row.is_completed]),
        pass_rate=(sum(values) + 0.5) / (len(values) + 1) if passes else None,
    )
