"""Paired ratios of costs, tokens and seconds."""

from __future__ import annotations

import numpy as np
import pytest
from arms import estimated
from pytest import approx
from scipy import stats

from agentnb.experiments.statistics.ratios import Ratio, estimate_ratio
from agentnb.experiments.statistics.task_values import TooFewTasks


def drawn(tasks: int, repeats: int = 3, factor: float = 1.4) -> tuple[list[list[float]], list[list[float]]]:
    rng = np.random.default_rng(29)
    level = rng.lognormal(5, 2, (tasks, 1))
    return (level * factor * rng.lognormal(0, 0.3, (tasks, repeats))).tolist(), (
        level * rng.lognormal(0, 0.3, (tasks, repeats))
    ).tolist()


def ratio_of(a: list[list[float]], b: list[list[float]]) -> Ratio:
    ratio = estimate_ratio(a, b)
    assert isinstance(ratio, Ratio)
    return ratio


def test_ratio_is_the_difference_of_logarithms(subtests: pytest.Subtests) -> None:
    for tasks in (12, 40):
        with subtests.test(str(tasks)):
            a, b = drawn(tasks)
            ratio, logs = ratio_of(a, b), np.log(np.mean(a, axis=1) / np.mean(b, axis=1))
            difference = estimated([[value] for value in logs], [[0.0]] * tasks)
            assert ratio.value == approx(stats.gmean(np.exp(logs)), abs=1e-9) and difference.interval is not None
            assert (ratio.p_value, ratio.interval) == (approx(difference.p_value), approx(tuple(np.exp(difference.interval))))


def test_swapping_the_arms_inverts_the_ratio(subtests: pytest.Subtests) -> None:
    for tasks in (12, 40):
        with subtests.test(str(tasks)):
            a, b = drawn(tasks)
            one, other = ratio_of(a, b), ratio_of(b, a)
            assert other.value == approx(1 / one.value) and one.interval is not None and other.interval is not None
            assert one.interval == approx((1 / other.interval[1], 1 / other.interval[0]))


def test_tasks_with_missing_or_zero_values_are_excluded() -> None:
    a, b = drawn(40)
    expected = ratio_of(a[4:], b[4:])
    wrong = [[0.0, *a[0][1:]], a[1], [None, *a[2][1:]], [], *a[4:]]
    wrong_b = [b[0], [-1.0, *b[1][1:]], *b[2:]]
    assert estimate_ratio(wrong, wrong_b) == expected._replace(left_out=4)


def test_ratio_without_pairs_names_the_missing_values() -> None:
    assert estimate_ratio([[0.0]] * 7, [[1.0]] * 7) == TooFewTasks(sizes=(), left_out=7)


def test_identical_values_have_a_ratio_without_an_interval() -> None:
    ratio = ratio_of([[20.0]] * 6, [[10.0]] * 6)
    assert (ratio.value, ratio.interval) == (approx(2), None)
