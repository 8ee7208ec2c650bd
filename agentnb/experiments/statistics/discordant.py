"""Exact McNemar test for two arms in which each task either passes or fails."""

from __future__ import annotations

from typing import NamedTuple

from agentnb.experiments.statistics.extras import load_extra
from agentnb.experiments.statistics.task_values import TaskValues


class Discordance(NamedTuple):
    """Numbers of tasks that passed in only one arm."""

    only_a: int
    """Number of tasks that passed only in the first arm; b in McNemar's table."""
    only_b: int
    """Number of tasks that passed only in the second arm; c in McNemar's table."""
    p_value: float
    """Exact two-sided p value for both being equally likely; 1 if no task is discordant."""


def compare_discordant(a: TaskValues, b: TaskValues) -> Discordance:
    """Test whether tasks pass more often in one arm, using the tasks whose outcomes differ.

    Takes a single 1 or 0 per task, for pass or failure, since repeats are not independent. Tasks that lack a value in an arm
    are left out. Source: McNemar (1947), Psychometrika 12, with the binomial distribution.
    """
    outcomes = [(in_a[0], in_b[0]) for in_a, in_b in zip(a, b, strict=True) if len(in_a) and len(in_b)]
    only_a, only_b = sum(in_a > in_b for in_a, in_b in outcomes), sum(in_a < in_b for in_a, in_b in outcomes)
    discordant = only_a + only_b
    p_value = float(load_extra("scipy.stats").binomtest(only_a, discordant).pvalue) if discordant else 1.0
    return Discordance(only_a, only_b, p_value)
