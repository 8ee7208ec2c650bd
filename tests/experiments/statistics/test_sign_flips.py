"""Sign flips of more tasks than can be enumerated, beside all of them."""

from __future__ import annotations

import numpy as np
import pytest

from agentnb.experiments.statistics.sign_flips import flip_signs


def exact_p_value(differences: np.ndarray) -> float:
    """The share of all flips whose absolute sum reaches the observed one, by the sums of each half."""
    halves = []
    for part in (differences[::2], differences[1::2]):
        sums = np.zeros(1)
        for value in part:
            sums = np.concatenate([sums + value, sums - value])
        halves.append(np.sort(sums))
    observed = abs(differences.sum()) - 1e-9
    above = len(halves[1]) - np.searchsorted(halves[1], observed - halves[0])
    return min(float(2 * above.sum() / 2 ** len(differences)), 1.0)


def test_chosen_flips_err_in_no_direction(subtests: pytest.Subtests) -> None:
    for tasks in range(16, 30):
        with subtests.test(f"{tasks} tasks"):
            rng = np.random.default_rng(29)
            drawn = rng.normal(2.1 / tasks**0.5, 1, (100, tasks))
            exact = [exact_p_value(differences) for differences in drawn]
            errors = [flip_signs(row).p_value() / p for row, p in zip(drawn, exact, strict=True) if 0.02 < p < 0.1]
            assert abs(np.mean(errors) - 1) < 0.025 and max(np.abs(np.subtract(errors, 1))) < 0.12


def test_tasks_that_do_not_differ_change_no_p_value(subtests: pytest.Subtests) -> None:
    for ups, downs in ((5, 0), (7, 1), (9, 2), (6, 6)):
        for tasks in (16, 22, 29):
            with subtests.test(f"{ups} up, {downs} down, {tasks} tasks"):
                differences = np.array([1.0] * ups + [-1.0] * downs + [0.0] * (tasks - ups - downs))
                exact = exact_p_value(differences)
                assert flip_signs(differences).p_value() == pytest.approx(exact, rel=0.12)


def test_p_value_falls_on_both_sides_of_the_mean() -> None:
    differences = np.random.default_rng(29).normal(0.4, 1, 20)
    test, mean = flip_signs(differences), float(differences.mean())
    for side in (1, -1):
        values = [test.p_value(mean + side * step / 20) for step in range(40)]
        assert values == sorted(values, reverse=True) and values[0] == 1


def test_interval_is_the_range_of_means_that_are_not_rejected(subtests: pytest.Subtests) -> None:
    for tasks in (8, 12, 20):
        with subtests.test(str(tasks)):
            test = flip_signs(np.random.default_rng(29).normal(0.4, 1, tasks))
            low, high = test.interval(0.05)
            assert all(test.p_value(theta) >= 0.05 for theta in np.linspace(low, high, 50))
            assert test.p_value(low - 1e-6) < 0.05 and test.p_value(high + 1e-6) < 0.05
