"""Rounds until an event in two arms, with completion as a competing event: cumulative incidence and Gray's test."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any, NamedTuple

from agentnb.experiments.statistics.sign_flips import sum_flips
from agentnb.experiments.statistics.task_values import MIN_TASKS
from agentnb.plots.survival_plot import RunEnd, Step, count_ends, cumulative_incidence, incidence

FLIP_BITS = 11
"""Number of bits to flip: all swaps are tried for up to 12 units, and 2,048 swaps for more."""


class SurvivalArm(NamedTuple):
    """The runs of an arm until their event, completion or censoring."""

    runs: int
    events: int
    completed: int
    """Number of runs that completed without the event."""
    steps: tuple[Step, ...]
    """Share of runs with the event, and its interval, after each round in which an event occurred."""


class SurvivalComparison(NamedTuple):
    """Rounds until an event in two arms."""

    a: SurvivalArm
    b: SurvivalArm
    statistic: float | None
    """Gray's score: the number of events in ``a`` beyond those expected without a difference; None if there are no events."""
    p_value: float | None
    """Two-sided p value, or None if there are fewer than 6 units or no event."""
    units: int
    """Number of units of the test: tasks, or clusters of tasks, with runs in both arms."""
    left_out: int
    """Number of units without runs in one of the arms."""


def compare_survival(a: Iterable[RunEnd], b: Iterable[RunEnd]) -> SurvivalComparison:
    """Compare the number of rounds until an event.

    The statistic is that of Gray (1988), Annals of Statistics 16. Since neither the runs of a task nor its arms are
    independent, the test swaps the arms of complete units; the p value is the share of swaps for which the statistic is at
    least as far from 0.
    """
    ends = [*a], [*b]
    arms = _describe(ends[0]), _describe(ends[1])
    named = [{end.unit for end in arm} for arm in ends]
    paired = named[0] & named[1]
    units = sorted(paired, key=repr)  # swaps depend on the order, and runs finish in any order
    counts = len(units), len(named[0] ^ named[1])
    last = max((end.round for arm in ends for end in arm), default=0)
    tables = [count_ends([end for end in arm if end.unit in paired], units, last) for arm in ends]
    if not units or not (tables[0] + tables[1])[:, 1].any():
        return SurvivalComparison(*arms, None, None, *counts)
    total, moved = (tables[0] + tables[1]).sum(axis=0), sum_flips(tables[0] - tables[1], FLIP_BITS)
    scores = _score((total + moved) / 2, (total - moved) / 2)
    observed = float(scores[0])
    p_value = float((abs(scores) >= abs(observed) - 1e-9).mean()) if len(units) >= MIN_TASKS else None
    return SurvivalComparison(*arms, observed, p_value, *counts)


def _score(a: Any, b: Any) -> Any:
    """Return Gray's score. ``a`` and ``b``: by round, the numbers of runs at risk, with an event, and completed."""
    import numpy as np

    weights = []
    for arm in (a, b):
        at_risk, events, completed = np.moveaxis(arm, -2, 0)
        remaining = np.cumprod(1 - (events + completed) / np.maximum(at_risk, 1), axis=-1)
        remaining, had = (
            np.concatenate([np.full_like(curve[..., :1], start), curve[..., :-1]], axis=-1)
            for curve, start in ((remaining, 1.0), (incidence(arm), 0.0))
        )
        weights.append(np.where(at_risk > 0, at_risk * (1 - had) / np.maximum(remaining, 1e-12), 0.0))
    share = weights[0] / np.maximum(weights[0] + weights[1], 1e-12)
    return (a[..., 1, :] - (a[..., 1, :] + b[..., 1, :]) * share).sum(axis=-1)


def _describe(ends: list[RunEnd]) -> SurvivalArm:
    counts = Counter(run.end for run in ends)
    return SurvivalArm(len(ends), counts["loop"], counts["completed"], tuple(cumulative_incidence(ends)))
