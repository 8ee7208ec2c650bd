"""Differences within tasks: equal to scipy and statsmodels, and true on drawn outcomes."""

from __future__ import annotations

import sys
from functools import cache
from itertools import product

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
from agentnb.experiments.statistics.clusters import estimate_mean
from agentnb.experiments.statistics.paired import Difference, estimate_difference
from agentnb.experiments.statistics.sign_flips import flip_signs
from agentnb.experiments.statistics.task_values import TooFewTasks


def drawn(tasks: int, repeats: int, *, shift: float = 0.1, seed: int = 29) -> tuple[Values, Values]:
    rng = np.random.default_rng(seed)
    level = rng.normal(0, 1, (tasks, 1))
    a, b = (level + rng.normal(mean, 0.4, (tasks, repeats)) for mean in (shift, 0))
    return a.tolist(), b.tolist()


def test_p_value_is_the_larger_of_flips_and_t_test(subtests: pytest.Subtests) -> None:
    for tasks, repeats in ((6, 1), (12, 2), (29, 1), (30, 1), (55, 4)):
        with subtests.test(f"{tasks} tasks, {repeats} repeats"):
            a, b = drawn(tasks, repeats, shift=0.3)
            values = np.subtract(np.mean(a, axis=1), np.mean(b, axis=1))
            difference, test, flips = estimated(a, b), stats.ttest_1samp(values, 0), flip_signs(values)
            assert difference.value == approx(values.mean(), abs=1e-9)
            assert difference.p_value == approx(max(test.pvalue, flips.p_value()), abs=1e-9)
            of_t, of_flips = test.confidence_interval(), flips.interval(0.05)
            assert difference.interval == approx((min(of_t.low, of_flips[0]), max(of_t.high, of_flips[1])), abs=1e-9)


def test_false_positives_for_pass_rates_stay_within_the_level(subtests: pytest.Subtests) -> None:
    shares = np.arange(1, 101) / 100
    for tasks in (6, 8, 15, 30, *size((), nightly=(29, 31, 50, 75, 100))):
        with subtests.test(f"{tasks} tasks"):
            errors = np.zeros(len(shares))
            for up, down in product(range(tasks + 1), repeat=2):
                if up + down <= tasks and up >= down and passes_p_value(up, down, tasks) < 0.05:
                    errors += (1 + (up != down)) * stats.multinomial.pmf(
                        (up, down, tasks - up - down), tasks, np.stack([shares / 2, shares / 2, 1 - shares], axis=1)
                    )
            assert errors.mean() <= 0.05 and errors.max() <= 0.07


def passes_p_value(up: int, down: int, tasks: int) -> float:
    """The p value where so many tasks pass in one arm only, and all others in both."""
    rest = tasks - up - down
    return estimated([[1.0]] * up + [[0.0]] * down + [[1.0]] * rest, [[0.0]] * up + [[1.0]] * (down + rest)).p_value


def test_p_value_has_no_jump_at_thirty_tasks() -> None:
    for tasks in (28, 29, 30, 31):
        assert passes_p_value(6, 0, tasks) == approx(2 / 2**6, rel=0.05) and passes_p_value(5, 0, tasks) == approx(2 / 2**5)


def test_interval_for_pass_rates_covers_rare_differences(subtests: pytest.Subtests) -> None:
    for tasks in size((29,), nightly=(15, 29, 50)):
        for up, down in ((0.05, 0.01), (0.1, 0.0), (0.2, 0.01), (0.5, 0.05)):
            with subtests.test(f"{tasks} tasks, {up} and {down}"):
                missed = 0.0
                for ups, downs in product(range(tasks + 1), repeat=2):
                    chance = stats.multinomial.pmf((ups, downs, tasks - ups - downs), tasks, (up, down, 1 - up - down))
                    if chance > 1e-5:
                        interval = passes_interval(ups, downs, tasks)
                        missed += chance * (interval is not None and not interval[0] <= up - down <= interval[1])
                assert missed <= 0.063


@cache
def passes_interval(up: int, down: int, tasks: int) -> tuple[float, float] | None:
    rest = tasks - up - down
    return estimated([[1.0]] * up + [[0.0]] * down + [[1.0]] * rest, [[0.0]] * up + [[1.0]] * (down + rest)).interval


def test_models_and_repeats_do_not_count_as_independent_units() -> None:
    a, b = drawn(8, 2, shift=0.5)
    twice = estimated(a + a, b + b, tasks=[*range(8)] * 2)
    assert twice == estimated(a, b)._replace(sizes=(1,) * 8)
    assert isinstance(estimate_difference(a[:5] * 3, b[:5] * 3, tasks=[*range(5)] * 3), TooFewTasks)


def test_tasks_weigh_equally_whatever_their_models_repeats_and_cluster() -> None:
    a: Values = [[1.0] * 9, [0.0], [1.0, 0.0], *[[0.0]] * 5]
    assert estimated(a, [[0.0]] * 8).value == approx(1.5 / 8)
    assert estimated(a, [[0.0]] * 8, tasks=[0, 0, 1, 2, 3, 4, 5, 6]).value == approx(1.0 / 7)
    clustered = estimated([[-1.0]] * 5 + [[1.0]] * 20, [[0.0]] * 25, clusters=[*range(5), *["large"] * 20])
    assert clustered.value == approx(15 / 25) and clustered.sizes == (1, 1, 1, 1, 1, 20)


def test_clusters_use_the_bell_mccaffrey_standard_error() -> None:
    sizes = [1, 1, 2, 6, 6, 3, 1, 9]
    values = [list(np.random.default_rng(size).normal(0, 1, size)) for size in sizes]
    groups, values_of_tasks = np.repeat(np.arange(8), sizes), np.concatenate(values)
    tasks = len(groups)
    left = np.eye(tasks) - 1 / tasks
    variance, columns = 0.0, []
    for cluster in range(8):
        inside = np.flatnonzero(groups == cluster)
        roots, vectors = np.linalg.eigh(left[np.ix_(inside, inside)])
        adjusted = vectors @ np.diag(roots**-0.5) @ vectors.T
        variance += float((adjusted @ (left @ values_of_tasks)[inside]).sum() / tasks) ** 2
        columns.append(left[:, inside] @ adjusted.sum(axis=1) / tasks)
    product_of_columns = np.array(columns) @ np.array(columns).T
    freedom = np.trace(product_of_columns) ** 2 / (product_of_columns**2).sum()
    assert estimate_mean([*map(sum, values)], sizes) == approx((values_of_tasks.mean(), variance**0.5, freedom))
    assert estimate_mean([*map(sum, values)], [3] * 8)[2] == approx(7)


def test_interval_covers_the_mean_over_tasks_of_unequal_clusters() -> None:
    rng, missed = np.random.default_rng(SEED), 0
    for _ in range(EXPERIMENTS):
        sizes = rng.choice((1, 1, 1, 6), 26)
        effects = rng.normal(np.where(sizes == 1, -0.4, 0.2), 0.3)  # over tasks 0
        of_tasks, clusters = np.repeat(effects, sizes), np.repeat(np.arange(26), sizes)
        a = [[value] for value in rng.normal(of_tasks, 0.3)]
        interval = estimated(a, [[0.0]] * len(a), clusters=clusters.tolist()).interval
        missed += interval is None or not interval[0] <= 0 <= interval[1]
    assert missed / EXPERIMENTS <= bounds_of(0.05)[1]


def test_under_six_clusters_yield_too_few_tasks() -> None:
    a, b = drawn(7, 2)
    assert estimate_difference(a[:5], b[:5]) == TooFewTasks((1,) * 5, left_out=0, required=6)
    assert estimate_difference(a, b, clusters=[0, 0, 0, 1, 2, 3, 4]) == TooFewTasks((3, 1, 1, 1, 1), left_out=0)
    a[1], b[2] = [], []
    assert estimate_difference(a, b) == TooFewTasks((1,) * 5, left_out=2)


def test_unpaired_unit_is_dropped_from_its_cluster() -> None:
    a, b = drawn(9, 1)
    clusters = ["x", "x", *range(7)]
    expected = estimated(a[1:], b[1:], clusters=clusters[1:])
    b[0] = []
    assert estimated(a, b, clusters=clusters) == expected._replace(left_out=1)


def test_tasks_without_a_value_are_excluded_and_counted() -> None:
    a, b = drawn(40, 2)
    expected = estimated(a[2:], b[2:])
    a[0], b[1] = [], []
    assert estimated(a, b) == expected._replace(left_out=2)


def test_identical_differences_have_no_interval(subtests: pytest.Subtests) -> None:
    limit = stats.binomtest(0, 12, alternative="less").proportion_ci(0.95).high
    cases = {
        "none differs": (0.0, 0.0, 1.0),
        "all differ alike": (1.0, 0.0, 2 / 2**12),
        "rounding errors": (0.1 + 0.2, 0.3, 1.0),
    }
    for name, (of_a, of_b, p_value) in cases.items():
        with subtests.test(name):
            difference = estimated([[of_a]] * 12, [[of_b]] * 12)
            assert (difference.interval, difference.p_value) == (None, approx(p_value))
            assert difference.max_exception_share == approx(limit, abs=1e-9)
            assert difference.value == approx(of_a - of_b)
    assert estimated([[0.1 + 0.2], *[[0.3]] * 11], [[0.3]] * 12).interval is None
    assert estimated([[1.0], *[[0.0]] * 11], [[0.0]] * 12).max_exception_share is None


number_arms = two_arms(max_tasks=15).filter(lambda arms: any(value not in (0, 1) for task in arms[0] for value in task))
"""Of passes and fails t depends on where 0 is, and of more tasks the choice of flips does."""


@examples(200)
@given(two_arms(), st.sampled_from([0.8, 0.9, 0.95, 0.99]))
def test_p_value_is_small_exactly_if_interval_excludes_zero(arms: tuple[Values, Values], confidence: float) -> None:
    difference = estimate_difference(*arms, confidence=confidence)
    assert isinstance(difference, Difference) or len(arms[0]) < 8
    if isinstance(difference, Difference) and difference.interval is not None:
        low, high = difference.interval
        assert (difference.p_value < round(1 - confidence, 9)) == (not low <= 0 <= high)
        assert low <= difference.value + 1e-9 and difference.value - 1e-9 <= high


def test_interval_at_the_p_value_level_touches_zero(subtests: pytest.Subtests) -> None:
    for tasks in (6, 8, 10):
        for passes in range(2, tasks):
            with subtests.test(f"{passes} of {tasks}"):
                a: Values = [[1.0]] * passes + [[0.0]] * (tasks - passes)
                p_value = estimated(a, [[0.0]] * tasks).p_value
                at, above = (
                    estimated(a, [[0.0]] * tasks, confidence=1 - level).interval for level in (p_value, 1.01 * p_value)
                )
                assert at is not None and above is not None and at[0] <= 1e-9 < above[0]


def test_rounding_errors_do_not_make_p_value_and_interval_disagree() -> None:
    rng = np.random.default_rng(SEED)
    for _ in range(100):
        a = [[value] for value in rng.integers(-3, 8, 9) / 10]
        difference = estimated(a, [[0.0]] * 9)
        if difference.p_value < 1:
            at = estimated(a, [[0.0]] * 9, confidence=1 - difference.p_value).interval
            assert at is not None and at[0] <= 1e-9 and at[1] >= -1e-9


@examples(200)
@given(two_arms())
def test_swapping_the_arms_negates_the_difference(arms: tuple[Values, Values]) -> None:
    one, other = estimated(*arms), estimated(*arms[::-1])
    assert other.value == approx(-one.value, abs=1e-9) and other.p_value == approx(one.p_value, abs=1e-9)
    assert (one.interval is None) == (other.interval is None)
    if one.interval is not None and other.interval is not None:
        assert other.interval == approx((-one.interval[1], -one.interval[0]), abs=1e-9)


@examples(200)
@given(number_arms, st.integers(-100, 100))
def test_constant_added_to_an_arm_shifts_the_interval(arms: tuple[Values, Values], constant: int) -> None:
    a, b = arms
    one, other = estimated(a, b), estimated([[value + constant for value in task] for task in a], b)
    assert other.value == approx(one.value + constant, abs=1e-9)
    assert (one.interval is None) == (other.interval is None)
    if one.interval is not None and other.interval is not None:
        assert other.interval == approx((one.interval[0] + constant, one.interval[1] + constant), abs=1e-9)


@examples(200)
@given(two_arms(), st.randoms(use_true_random=False))
def test_order_of_tasks_does_not_matter(arms: tuple[Values, Values], random: object) -> None:
    pairs = [*zip(*arms, strict=True)]
    random.shuffle(pairs)  # type: ignore[attr-defined]
    one, other = estimated(*arms), estimated([a for a, _ in pairs], [b for _, b in pairs])
    assert (other.value, other.p_value) == approx((one.value, one.p_value), abs=1e-9)
    assert (one.interval and approx(one.interval, abs=1e-9)) == other.interval


def test_invalid_values_are_refused(subtests: pytest.Subtests) -> None:
    cases = {
        "other number of tasks": ([[1.0]] * 6, [[1.0]] * 7),
        "NaN": ([[float("nan")]] * 6, [[1.0]] * 6),
        "infinite": ([[1.0]] * 6, [[float("inf")]] * 6),
    }
    for name, (a, b) in cases.items():
        with subtests.test(name), pytest.raises(ValueError):
            estimate_difference(a, b)


def test_missing_scipy_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "scipy.special", None)
    with pytest.raises(SettingsError) as caught:
        estimate_difference(*drawn(30, 1))
    assert Install("agentnb[stats]", lead="Install it") in caught.value.advice


@pytest.mark.nightly("by day in drawn worlds")
def test_interval_covers_the_true_difference(subtests: pytest.Subtests) -> None:
    low, _ = bounds_of(0.95)
    for rates in ((0.5, 0.7), (0.7, 0.7)):
        for clustering in (0, 0.7):
            with subtests.test(f"{rates}, clustering {clustering}"):
                assert low <= measure_coverage(rates, clustering, tasks=30) <= 0.995


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
def test_coverage_is_printed_where_none_is_promised() -> None:
    for tasks in (10, 20, 30, 100):
        for rates in ((0.5, 0.7), (0.5, 0.5), (0.05, 0.02), (0.98, 0.95)):
            shares = [measure_coverage(rates, clustering, tasks=tasks) for clustering in (0, 0.3, 0.7)]
            print(f"{tasks} tasks, rates {rates}, clustering 0, .3, .7: covered", *[f"{share:.3f}" for share in shares])


@pytest.mark.slow("2,000 experiments of each kind")
@pytest.mark.nightly("by day with 30 tasks and 3 repeats")
def test_interval_covers_with_more_tasks_and_varied_repeats(subtests: pytest.Subtests) -> None:
    low, _ = bounds_of(0.95)
    for tasks, repeats in ((30, 1), (30, 10), (60, 3), (100, 3)):
        for clustering in (0, 0.3, 0.7):
            with subtests.test(f"{tasks} tasks, {repeats} repeats, clustering {clustering}"):
                assert low <= measure_coverage((0.5, 0.7), clustering, tasks=tasks, repeats=repeats) <= 0.995


def test_number_of_averaged_values_per_difference_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    summed = 0

    def counted(values: Values) -> float:
        nonlocal summed
        summed += len(values)
        return float(np.mean(values))

    monkeypatch.setattr("agentnb.experiments.statistics.clusters.compute_mean", counted)
    estimated(*drawn(400, 1))
    assert summed < 20 * 400


def test_interval_for_pass_rates_stays_within_minus_one_and_one() -> None:
    a, clusters = [[1.0]] * 20 + [[0.0]] * 14, [0] * 20 + [n // 2 for n in range(2, 16)]
    b = [[1 - one] for (one,) in a]
    assert estimated(a, b, clusters=clusters).interval == (-1, 1)
    low, high = estimated([[2 * one] for (one,) in a], [[2 * one] for (one,) in b], clusters=clusters).interval
    assert low < -2 and high > 2


def test_skewness_is_unknown_with_only_a_few_small_differences(subtests: pytest.Subtests) -> None:
    one_of_five, same = ([1.0, 0, 0, 0, 0], [0.0] * 5), ([0.0] * 5, [0.0] * 5)
    cases = {
        "two of ten in one run of five": ([one_of_five] * 2 + [same] * 8, None),
        "six of ten": ([one_of_five] * 6 + [same] * 4, False),
        "in their only run": ([([1.0], [0.0])] * 2 + [([0.0], [0.0])] * 8, False),
        "many of more": ([one_of_five] * 26 + [same] * 60, False),
    }
    for name, (pairs, expected) in cases.items():
        with subtests.test(name):
            assert estimated([a for a, _ in pairs], [b for _, b in pairs]).is_skewed is expected
