"""Exact McNemar test of two arms with one pass or fail per task each."""

from __future__ import annotations

from typing import NamedTuple

from agentnb.experiments.statistics.extras import load_extra
from agentnb.experiments.statistics.task_values import TaskValues


class Discordance(NamedTuple):
    """Tasks that passed in one arm only."""

    only_a: int
    """Tasks that passed in the first arm only: b in McNemar's table."""
    only_b: int
    """Tasks that passed in the second arm only: c in McNemar's table."""
    p_value: float
    """Exact two-sided p value of both being equally likely; 1 without discordant tasks."""


def compare_discordant(a: TaskValues, b: TaskValues) -> Discordance:
    """Test whether tasks pass more often in one arm, by the tasks with different outcomes.

    Takes one pass or failure per task, 1 or 0: repeats are not independent. Tasks without a value in an arm are left out.
    Source: McNemar (1947), Psychometrika 12, with the binomial distribution.
    """
    outcomes = [(in_a[0], in_b[0]) for in_a, in_b in zip(a, b, strict=True) if len(in_a) and len(in_b)]
    only_a, only_b = sum(in_a > in_b for in_a, in_b in outcomes), sum(in_a < in_b for in_a, in_b in outcomes)
    discordant = only_a + only_b
    p_value = float(load_extra("scipy.stats").binomtest(only_a, discordant).pvalue) if discordant else 1.0
    return Discordance(only_a, only_b, p_value)
