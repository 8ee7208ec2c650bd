"""Exact McNemar test of two arms with one pass or fail per task each."""

from __future__ import annotations

from typing import NamedTuple

from agentnb.experiments.statistics.extras import load_extra
from agentnb.experiments.statistics.tasks import TaskValues


class Discordance(NamedTuple):
    """Tasks that passed in one arm only."""

    only_a: int
    """Tasks that passed in the first arm only: b of the table of McNemar."""
    only_b: int
    """Tasks that passed in the second arm only: c of the table of McNemar."""
    p_value: float
    """Exact two-sided p value of both being equally likely; 1 without any."""
    tasks: int
    left_out: int
    """Tasks without a value in one of the arms."""


def compare_discordant(a: TaskValues, b: TaskValues) -> Discordance:
    """Test whether tasks pass more often in one arm, by the tasks with different outcomes.

    Raises ValueError for a task with several repeats, which are not independent, and for values other than 0 and 1.
    Source: McNemar (1947), Psychometrika 12, with the binomial distribution.
    """
    pairs = [(one, other) for one, other in zip(a, b, strict=True) if len(one) and len(other)]
    if any(len(one) != 1 or len(other) != 1 for one, other in pairs):
        raise ValueError("McNemar's test takes one repeat a task: several are not independent")
    outcomes = [(one[0], other[0]) for one, other in pairs]
    if any(value not in (0, 1) for outcome in outcomes for value in outcome):
        raise ValueError("McNemar's test takes passes and fails: 1 and 0")
    only_a, only_b = sum(one > other for one, other in outcomes), sum(one < other for one, other in outcomes)
    discordant = only_a + only_b
    p_value = float(load_extra("scipy.stats").binomtest(only_a, discordant).pvalue) if discordant else 1.0
    return Discordance(only_a, only_b, p_value, len(outcomes), len(a) - len(outcomes))
