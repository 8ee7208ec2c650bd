"""Differences within tasks: equal to scipy and statsmodels, and true on drawn outcomes."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import pytest
from arms import Values, estimated, two_arms
from drawn_outcomes import EXPERIMENTS, SEED, bounds_of, measure_coverage
from hypothesis import given
from hypothesis import strategies as st
from property_settings import examples, size
from pytest import approx
from scipy import stats

from agentnb.advice import Install
from agentnb.errors import SettingsError
from agentnb.experiments.statistics.paired import estimate_difference
from agentnb.experiments.statistics.tasks import TooFewTasks

PINGOUIN = json.loads(Path(__file__).with_name("pingouin_numbers.json").read_text(encoding="utf-8"))


def drawn(tasks: int, repeats: int, *, shift: float = 0.1, seed: int = 29) -> tuple[Values, Values]:
    rng = np.random.default_rng(seed)
    level = rng.normal(0, 1, (tasks, 1))
    a, b = (level + rng.normal(mean, 0.4, (tasks, repeats)) for mean in (shift, 0))
    return a.tolist(), b.tolist()


def test_difference_equals_clustered_regression_of_statsmodels(subtests: pytest.Subtests) -> None:
    import statsmodels.api as sm

    for tasks, repeats in ((30, 1), (30, 3), (55, 4)):
        with subtests.test(f"{tasks} tasks, {repeats} repeats"):
            a, b = drawn(tasks, repeats)
            runs = np.subtract(a, b).ravel()
            groups = np.repeat(np.arange(tasks), repeats)
            fit = sm.OLS(runs, np.ones(len(runs))).fit(cov_type="cluster", cov_kwds={"groups": groups}, use_t=True)
            difference = estimated(a, b)
            assert difference.value == approx(fit.params[0], abs=1e-9)
            assert difference.interval == approx(tuple(fit.conf_int()[0]), abs=1e-9)
            assert difference.p_value == approx(fit.pvalues[0], abs=1e-9)
            assert difference.deviation / tasks**0.5 == approx(fit.bse[0], abs=1e-9)
            assert (difference.tasks, difference.method) == (tasks, "clustered_t")


def test_difference_equals_paired_t_of_scipy_and_pingouin(subtests: pytest.Subtests) -> None:
    for number, row in enumerate(PINGOUIN["difference"]):
        with subtests.test(f"data {number}"):
            difference = estimated([[value] for value in row["a"]], [[value] for value in row["b"]], confidence=0.9)
            test = stats.ttest_rel(row["a"], row["b"])
            assert difference.p_value == approx(row["p_value"], abs=1e-9) == approx(test.pvalue, abs=1e-9)
            assert difference.interval == approx(tuple(test.confidence_interval(0.9)), abs=1e-9)


def test_few_tasks_equal_permutation_test_of_scipy(subtests: pytest.Subtests) -> None:
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
            difference = estimated([[value] for value in values], [[0.0]] * len(values))
            assert difference.p_value == approx(test.pvalue, abs=1e-9)
            assert difference.method == "sign_flips"


def test_thirty_tasks_are_the_first_with_a_t_interval(subtests: pytest.Subtests) -> None:
    for tasks, method in {5: "sign_flips", 29: "sign_flips", 30: "clustered_t"}.items():
        with subtests.test(str(tasks)):
            assert estimated(*drawn(tasks, 2)).method == method


def test_under_five_tasks_say_what_is_missing() -> None:
    a, b = drawn(6, 2)
    assert estimate_difference(a[:4], b[:4]) == TooFewTasks(tasks=4, left_out=0, required=5)
    a[1], b[2] = [], []
    assert estimate_difference(a, b) == TooFewTasks(tasks=4, left_out=2, required=5)


def test_tasks_without_a_value_are_left_out_and_counted() -> None:
    a, b = drawn(40, 2)
    expected = estimated(a[2:], b[2:])
    a[0], b[1] = [], []
    assert estimated(a, b) == expected._replace(left_out=2)


def test_tasks_weigh_the_same_whatever_their_repeats() -> None:
    a: Values = [[1.0] * 9, [0.0], [1.0, 0.0], [0.0], [1.0]]
    assert estimated(a, [[0.0]] * 5).value == approx(2.5 / 5)


def test_equal_differences_have_no_interval(subtests: pytest.Subtests) -> None:
    limit = stats.binomtest(0, 12, alternative="less").proportion_ci(0.95).high
    cases = {
        "none differs": (0.0, 0.0, "none_differs", 1.0),
        "all differ alike": (1.0, 0.0, "all_differ_alike", 2 / 2**12),
        "rounding errors": (0.1 + 0.2, 0.3, "none_differs", 1.0),
    }
    for name, (of_a, of_b, method, p_value) in cases.items():
        with subtests.test(name):
            difference = estimated([[of_a]] * 12, [[of_b]] * 12)
            assert (difference.interval, difference.method, difference.p_value) == (None, method, approx(p_value))
            assert difference.max_exception_share == approx(limit, abs=1e-9)
            assert difference.value == approx(of_a - of_b)
    assert estimated([[0.1 + 0.2], *[[0.3]] * 11], [[0.3]] * 12).method == "none_differs"
    assert estimated([[1.0], *[[0.0]] * 11], [[0.0]] * 12).max_exception_share is None


def test_five_tasks_cannot_reject_at_95_per_cent() -> None:
    a: Values = [[1.0], [2.0], [3.0], [4.0], [5.0]]
    assert estimated(a, [[0.0]] * 5).interval == (-np.inf, np.inf)
    assert estimated(a, [[0.0]] * 5, confidence=0.9).interval == (1.0, 5.0)


@examples(500)
@given(two_arms(), st.sampled_from([0.8, 0.9, 0.95, 0.99]))
def test_p_is_small_exactly_if_interval_excludes_zero(arms: tuple[Values, Values], confidence: float) -> None:
    difference = estimated(*arms, confidence=confidence)
    if difference.interval is not None:
        low, high = difference.interval
        assert (difference.p_value < round(1 - confidence, 9)) == (not low <= 0 <= high)
        assert low <= difference.value + 1e-9 and difference.value - 1e-9 <= high


def test_p_at_its_level_keeps_zero_inside(subtests: pytest.Subtests) -> None:
    for tasks in (6, 8, 10):
        for passes in range(2, tasks):
            with subtests.test(f"{passes} of {tasks}"):
                a: Values = [[1.0]] * passes + [[0.0]] * (tasks - passes)
                p_value = estimated(a, [[0.0]] * tasks).p_value
                at, above = (
                    estimated(a, [[0.0]] * tasks, confidence=1 - level).interval for level in (p_value, 1.01 * p_value)
                )
                assert at is not None and above is not None and at[0] <= 0 < above[0]


def test_rounding_errors_do_not_part_p_and_interval() -> None:
    rng = np.random.default_rng(SEED)
    for _ in range(100):
        a = [[value] for value in rng.integers(-3, 8, 9) / 10]
        difference = estimated(a, [[0.0]] * 9)
        if difference.p_value < 1:
            at = estimated(a, [[0.0]] * 9, confidence=1 - difference.p_value).interval
            assert at is not None and at[0] <= 0 <= at[1]


@examples(200)
@given(two_arms())
def test_swapped_arms_negate_the_difference(arms: tuple[Values, Values]) -> None:
    one, other = estimated(*arms), estimated(*arms[::-1])
    assert other.value == approx(-one.value, abs=1e-9) and other.p_value == approx(one.p_value, abs=1e-9)
    assert (one.interval is None) == (other.interval is None)
    if one.interval is not None and other.interval is not None:
        assert other.interval == approx((-one.interval[1], -one.interval[0]), abs=1e-9)


@examples(200)
@given(two_arms(), st.integers(-100, 100))
def test_a_constant_added_to_an_arm_shifts_the_interval(arms: tuple[Values, Values], constant: int) -> None:
    a, b = arms
    one, other = estimated(a, b), estimated([[value + constant for value in task] for task in a], b)
    assert other.value == approx(one.value + constant, abs=1e-9)
    assert (one.interval is None) == (other.interval is None)
    if one.interval is not None and other.interval is not None:
        assert other.interval == approx((one.interval[0] + constant, one.interval[1] + constant), abs=1e-9)


@examples(200)
@given(two_arms(), st.randoms(use_true_random=False))
def test_order_of_tasks_changes_nothing(arms: tuple[Values, Values], random: object) -> None:
    pairs = [*zip(*arms, strict=True)]
    random.shuffle(pairs)  # type: ignore[attr-defined]
    one, other = estimated(*arms), estimated([a for a, _ in pairs], [b for _, b in pairs])
    assert (other.value, other.p_value) == approx((one.value, one.p_value), abs=1e-9)
    assert (one.interval and approx(one.interval, abs=1e-9)) == other.interval


def test_wrong_values_are_refused(subtests: pytest.Subtests) -> None:
    cases = {
        "other number of tasks": ([[1.0]] * 6, [[1.0]] * 7, 0.95),
        "NaN": ([[float("nan")]] * 6, [[1.0]] * 6, 0.95),
        "infinite": ([[1.0]] * 6, [[float("inf")]] * 6, 0.95),
        "confidence in per cent": ([[1.0]] * 6, [[1.0]] * 6, 95.0),
    }
    for name, (a, b, confidence) in cases.items():
        with subtests.test(name), pytest.raises(ValueError):
            estimate_difference(a, b, confidence=confidence)


def test_missing_scipy_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "scipy.special", None)
    with pytest.raises(SettingsError) as caught:
        estimate_difference(*drawn(30, 1))
    assert Install("agentnb[stats]", lead="Install it") in caught.value.advice


def test_interval_covers_the_true_difference(subtests: pytest.Subtests) -> None:
    low, high = bounds_of(0.95)
    assert high - low == approx(size(0.062, nightly=0.033), abs=0.001)
    for rates in ((0.5, 0.7), (0.5, 0.5), (0.7, 0.7)):
        for clustering in (0, 0.3, 0.7):
            with subtests.test(f"{rates}, clustering {clustering}"):
                assert low <= measure_coverage(rates, clustering, tasks=30) <= high


def test_sign_flips_cover_a_normal_mean(subtests: pytest.Subtests) -> None:
    low, high = bounds_of(0.95)
    for tasks in (10, 20):
        with subtests.test(f"{tasks} tasks"):
            drawn_differences = np.random.default_rng(SEED).normal(0.2, 0.5, (EXPERIMENTS, tasks)).tolist()
            intervals = [estimated([[value] for value in row], [[0.0]] * tasks).interval for row in drawn_differences]
            covered = [interval[0] <= 0.2 <= interval[1] for interval in intervals if interval is not None]
            assert low <= sum(covered) / EXPERIMENTS <= high


@pytest.mark.slow("2,000 experiments of each kind")
@pytest.mark.nightly("measures coverage where none is promised, and prints it")
def test_coverage_without_a_promise_is_printed() -> None:
    for tasks in (10, 20, 30, 100):
        for rates in ((0.5, 0.7), (0.5, 0.5), (0.05, 0.02), (0.98, 0.95)):
            shares = [measure_coverage(rates, clustering, tasks=tasks) for clustering in (0, 0.3, 0.7)]
            print(f"{tasks} tasks, rates {rates}, clustering 0, .3, .7: covered", *[f"{share:.3f}" for share in shares])


@pytest.mark.slow("2,000 experiments of each kind")
@pytest.mark.nightly("by day with 30 tasks and 3 repeats")
def test_interval_covers_with_more_tasks_and_other_repeats(subtests: pytest.Subtests) -> None:
    low, high = bounds_of(0.95)
    for tasks, repeats in ((30, 1), (30, 10), (60, 3), (100, 3)):
        for clustering in (0, 0.3, 0.7):
            with subtests.test(f"{tasks} tasks, {repeats} repeats, clustering {clustering}"):
                assert low <= measure_coverage((0.5, 0.7), clustering, tasks=tasks, repeats=repeats) <= high
