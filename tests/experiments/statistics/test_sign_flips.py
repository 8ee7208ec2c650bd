"""Sign flips of more tasks than can be enumerated, compared with the full enumeration."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from scipy import stats

from agentnb.experiments.statistics.sign_flips import flip_signs


def exact_p_value(differences: np.ndarray) -> float:
    """Return the share of all flips whose absolute sum reaches the observed one, from the sums of each half."""
    halves = []
    for part in (differences[::2], differences[1::2]):
        sums = np.zeros(1)
        for value in part:
            sums = np.concatenate([sums + value, sums - value])
        halves.append(np.sort(sums))
    observed = abs(differences.sum()) - 1e-9
    above = len(halves[1]) - np.searchsorted(halves[1], observed - halves[0])
    return min(float(2 * above.sum() / 2 ** len(differences)), 1.0)


def test_sampled_sign_flips_are_unbiased(subtests: pytest.Subtests) -> None:
    for tasks in (16, 22, 29):
        with subtests.test(f"{tasks} tasks"):
            rng = np.random.default_rng(29)
            drawn = rng.normal(2.1 / tasks**0.5, 1, (100, tasks))
            exact = [exact_p_value(differences) for differences in drawn]
            errors = [flip_signs(row).p_value() / p for row, p in zip(drawn, exact, strict=True) if 0.02 < p < 0.1]
            assert abs(np.mean(errors) - 1) < 0.025 and max(np.abs(np.subtract(errors, 1))) < 0.12


def test_up_to_fifteen_differing_tasks_have_exact_p_values(subtests: pytest.Subtests) -> None:
    for ups, downs in ((5, 0), (7, 1), (9, 2), (6, 6), (12, 3)):
        for tasks in (16, 22, 34):
            with subtests.test(f"{ups} up, {downs} down, {tasks} tasks"):
                differences = np.array([1.0] * ups + [-1.0] * downs + [0.0] * (tasks - ups - downs))
                exact = exact_p_value(differences)
                assert flip_signs(differences).p_value() == pytest.approx(exact, rel=1e-9)


def test_p_value_decreases_on_both_sides_of_the_mean() -> None:
    differences = np.random.default_rng(29).normal(0.4, 1, 20)
    test, mean = flip_signs(differences), float(differences.mean())
    for side in (1, -1):
        values = [test.p_value(mean + side * step / 20) for step in range(40)]
        assert values == sorted(values, reverse=True) and values[0] == 1


def test_interval_is_the_range_of_means_not_rejected(subtests: pytest.Subtests) -> None:
    for tasks in (8, 12, 20):
        with subtests.test(str(tasks)):
            test = flip_signs(np.random.default_rng(29).normal(0.4, 1, tasks))
            low, high = test.interval(0.05)
            assert all(test.p_value(theta) >= 0.05 for theta in np.linspace(low, high, 50))
            assert test.p_value(low - 1e-6) < 0.05 and test.p_value(high + 1e-6) < 0.05


def test_p_value_for_few_tasks_equals_scipy_permutation_test(subtests: pytest.Subtests) -> None:
    rng = np.random.default_rng(29)
    cases = {
        "normal": rng.normal(0.3, 0.5, 10),
        "fifteen tasks": rng.normal(0.2, 0.5, 15),
        "passes with ties": np.array([0, 1, 1, 0, 0, -1, 1, 1, 0, 1.0]),
        "thirds with ties": np.array([1, 2, -1, 0, 1, 1, -2, 2]) / 3,
        "two other than zero": np.array([0, 0, 0, 0, 1, 1.0]),
        "far from zero": rng.normal(5, 0.1, 8),
        "mean of zero": np.array([1, -1, 2, -2, 0.5, -0.5]),
        "tenths, which floats miss": np.array([0.1, 0.2, -0.3, 0.1, 0.2, 0.3, 0.7]),
    }
    for name, values in cases.items():
        with subtests.test(name):
            test = stats.permutation_test(
                (values,), lambda x, axis: x.mean(axis), permutation_type="samples", vectorized=True, n_resamples=2**15
            )
            assert flip_signs(values).p_value() == pytest.approx(test.pvalue, abs=1e-9)


def test_tasks_of_a_cluster_are_flipped_together() -> None:
    totals, sizes = np.array([3.0, -1.0, 4.0, 0.5, 2.5, 1.0, -0.5]), np.array([4, 1, 3, 1, 2, 1, 1])
    test = flip_signs(totals, sizes)
    signs = np.array(list(product((1, -1), repeat=7)))
    for theta in (0.0, 0.2, 0.7, 1.5):
        sums = np.abs(signs @ (totals - theta * sizes))
        assert test.p_value(theta) == pytest.approx(np.mean(sums >= sums[0] - 1e-12), abs=1e-12)


def test_five_tasks_have_no_95_percent_interval() -> None:
    test = flip_signs([1.0, 2.0, 3.0, 4.0, 5.0])
    assert test.interval(0.05) == (-np.inf, np.inf) and test.interval(0.1) == (1.0, 5.0)


def test_flipping_ten_thousand_tasks_uses_little_memory() -> None:
    drawn = np.random.default_rng(29).normal(0.02, 1, 10_000)
    assert flip_signs(drawn).p_value() == pytest.approx(stats.ttest_1samp(drawn, 0).pvalue, abs=0.01)
