"""Rounds until an event in two arms: curves of Kaplan and Meier, and the log-rank test."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import NamedTuple

from agentnb.experiments.statistics.extras import load_extra
from agentnb.plots.survival import Step, kaplan_meier


class SurvivalArm(NamedTuple):
    """Runs of an arm until their event, or until they were censored."""

    runs: int
    events: int
    steps: tuple[Step, ...]
    """Share of runs without the event after each round that has one, with its interval."""
    median: int | None
    """First round after which at most half of the runs are without the event; None if more are left at the end."""


class SurvivalComparison(NamedTuple):
    """Two arms by their rounds until an event."""

    a: SurvivalArm
    b: SurvivalArm
    statistic: float | None
    """Log-rank statistic, a standard normal value under no difference: positive if ``a`` has its events earlier."""
    p_value: float | None
    """Two-sided p value; None without a round with an event that both arms reach and some run survives."""


def compare_survival(a: Iterable[tuple[int, bool]], b: Iterable[tuple[int, bool]]) -> SurvivalComparison:
    """Compare rounds until an event, each run as its last round and whether the event was there; if not, it is censored.

    A run that ended at a limit is censored. The test takes runs as independent: with several repeats a task, or with paired
    tasks, its p value is only approximate. Source: Mantel (1966), Cancer Chemotherapy Reports 50.
    """
    known_a, known_b = [*a], [*b]
    if not _is_defined(known_a, known_b):
        return SurvivalComparison(_describe(known_a), _describe(known_b), None, None)
    stats = load_extra("scipy.stats")
    data = [
        stats.CensoredData.right_censored([time for time, _ in arm], [not has_event for _, has_event in arm])
        for arm in (known_a, known_b)
    ]
    result = stats.logrank(*data)
    return SurvivalComparison(_describe(known_a), _describe(known_b), float(result.statistic), float(result.pvalue))


def _is_defined(a: list[tuple[int, bool]], b: list[tuple[int, bool]]) -> bool:
    """Return True if the statistic has a variance: events in a round that both arms reach and some run survives."""
    events = Counter(time for time, has_event in a + b if has_event)
    at_risk = [(sum(time >= event for time, _ in a), sum(time >= event for time, _ in b), events[event]) for event in events]
    return any(in_a and in_b and in_a + in_b > count for in_a, in_b, count in at_risk)


def _describe(times: list[tuple[int, bool]]) -> SurvivalArm:
    steps = tuple(kaplan_meier(times))
    median = next((step.round for step in steps if step.share <= 0.5), None)
    return SurvivalArm(len(times), sum(has_event for _, has_event in times), steps, median)
