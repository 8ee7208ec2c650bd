"""pass^k with its bands."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from property_settings import examples
from pytest import approx
from scipy import stats
from statsmodels.stats.proportion import proportion_confint

from agentnb.experiments.statistics.pass_shares import estimate_all_pass

TASKS = [[1, 1, 0, 1], [0, 0, 0, 0], [1, 1, 1, 1], [1, 0, 0, 0], [1, 1, 0, 0], [0, 1, 1, 1]]
runs = st.lists(st.lists(st.integers(0, 1), min_size=1, max_size=4), min_size=5, max_size=12)


@examples(100)
@given(runs)
def test_pass_k_equals_the_share_over_all_k_run_subsets(passes: list[list[int]]) -> None:
    for share in estimate_all_pass(passes):
        known = [task for task in passes if len(task) >= share.k]
        expected = [np.mean([all(chosen) for chosen in combinations(task, share.k)]) for task in known]
        assert share.value == approx(float(np.mean(expected)), abs=1e-9) and share.tasks == len(known)


def test_pass_k_decreases_with_more_runs() -> None:
    together = [share.value for share in estimate_all_pass(TASKS)]
    assert together == sorted(together, reverse=True) and together[0] == approx(13 / 24)


def test_pass_k_goes_up_to_the_largest_number_of_repeats() -> None:
    assert len(estimate_all_pass(TASKS)) == max(map(len, TASKS))
    assert estimate_all_pass([]) == ()


def test_pass_k_band_equals_percentile_bootstrap_of_scipy() -> None:
    share = estimate_all_pass(TASKS * 5)[1]
    values = np.array([0.5, 0, 1, 0, 1 / 6, 0.5] * 5)
    band = stats.bootstrap(
        (values,), np.mean, method="percentile", n_resamples=2_000, vectorized=True, rng=np.random.default_rng(0)
    ).confidence_interval
    assert share.method == "bootstrap" and share.interval == approx((band.low, band.high), abs=1e-6)
    assert estimate_all_pass(TASKS * 5)[1] == share


def test_all_or_nothing_tasks_have_wilson_intervals(subtests: pytest.Subtests) -> None:
    for name, passes in {"one repeat": [[1]] * 17 + [[0]] * 3, "all pass": [[1, 1]] * 9, "none passes": [[0, 0]] * 9}.items():
        with subtests.test(name):
            (*_, share) = estimate_all_pass(passes)
            wilson = proportion_confint(sum(task[0] for task in passes), len(passes), method="wilson")
            assert share.method == "wilson" and share.interval == approx(wilson, abs=1e-6)


def test_pass_k_of_under_six_tasks_has_no_band() -> None:
    share = estimate_all_pass(TASKS[:5])[0]
    assert (share.interval, share.method, share.tasks) == (None, None, 5) and share.value is not None


def test_pass_k_averages_over_the_models_of_a_task() -> None:
    one = [[1, 1], [0, 0], [1, 0], [1, 1], [1, 1], [0, 0]]
    other = [[0, 0], [0, 0], [1, 1], [1, 1], [0, 0], [1, 1]]
    share = estimate_all_pass(one + other, tasks=[*range(6)] * 2)[1]
    assert (share.value, share.tasks) == (approx((0.5 + 0 + 0.5 + 1 + 0.5 + 0.5) / 6), 6)
    assert estimate_all_pass(one + other)[1].tasks == 12 and share.method == "bootstrap"
