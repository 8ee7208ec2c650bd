"""Confidence intervals of means, with tasks as independent units."""

from __future__ import annotations

import numpy as np
import pytest
from property_settings import size
from pytest import approx
from scipy.stats import t, ttest_1samp
from statsmodels.stats.proportion import proportion_confint

from agentnb.detect.intervals import Share, mean_by_task, t95


def test_single_runs_per_task_have_the_wilson_interval() -> None:
    share = mean_by_task([[1]] * 17 + [[0]] * 3)
    assert share == approx((0.85, *proportion_confint(17, 20, method="wilson")), abs=1e-9)


def test_all_pass_interval_ignores_extra_runs_per_task() -> None:
    once, often = mean_by_task([[1]] * 12), mean_by_task([[1] * 9] * 12)
    assert once.low == approx(proportion_confint(12, 12, method="wilson")[0]) and often.low is not None
    assert once.value == often.value == once.high == 1 and 0.7 < often.low <= once.low < 0.8


def test_clustered_tasks_widen_the_interval() -> None:
    alone, together = mean_by_task([[1], [1], [0], [0]] * 4), mean_by_task([[1], [1], [0], [0]] * 4, [0, 0, 1, 1] * 4)
    many = mean_by_task([[1], [1], [0], [0]] * 4, [place // 2 for place in range(16)])
    assert alone.low is not None and together.low is not None and many.low is not None
    assert together.low < alone.low and many.low < alone.low


def test_numeric_values_have_the_t_interval_over_tasks() -> None:
    values = np.random.default_rng(29).normal(5, 1, (20, 3))
    expected = ttest_1samp(values.mean(axis=1), 0).confidence_interval()
    assert mean_by_task(values.tolist())[1:] == approx((expected.low, expected.high), rel=1e-4)
    assert [t95(freedom) for freedom in (4, 9, 60)] == approx([t.ppf(0.975, freedom) for freedom in (4, 9, 60)], rel=0.01)


def test_unknown_values_and_one_task_have_no_interval() -> None:
    assert mean_by_task([[], []]) == Share(None, None, None)
    assert mean_by_task([[2.0, 4.0], []]) == Share(3.0, None, None)


def test_interval_has_nominal_coverage_for_correlated_runs(subtests: pytest.Subtests) -> None:
    draws = size(400, nightly=2_000)
    for clustering, tasks in ((0.7, 30), (0.3, 15)):
        with subtests.test(f"clustering {clustering}, {tasks} tasks"):
            rng, spread = np.random.default_rng(29), 1 / clustering - 1
            rates = rng.beta(0.6 * spread, 0.4 * spread, (draws, tasks, 1))
            shares = [mean_by_task(runs.tolist()) for runs in (rng.random((draws, tasks, 5)) < rates).astype(float)]
            covered = sum(share.low <= 0.6 <= share.high for share in shares)  # type: ignore[operator]
            assert covered / draws >= size(91, nightly=93) / 100
