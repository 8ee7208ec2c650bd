"""Minimum detectable effects and variance components."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from arms import estimated
from drawn_outcomes import EXPERIMENTS, SEED, bounds_of, draw_experiments, draw_rates
from property_settings import size
from pytest import approx
from scipy.optimize import brentq
from statsmodels.stats.power import TTestPower

from agentnb.experiments.statistics.power import (
    Components,
    assume_binary_components,
    compute_minimum_effect,
    compute_power,
    compute_task_deviation,
    estimate_components,
    estimate_intraclass_correlation,
)

PINGOUIN = json.loads(Path(__file__).with_name("pingouin_numbers.json").read_text(encoding="utf-8"))


def test_minimum_effect_equals_statsmodels(subtests: pytest.Subtests) -> None:
    for tasks in (8, 10, 30, 89, 500, 20_000):
        for power, alpha in ((0.8, 0.05), (0.9, 0.01)):
            with subtests.test(f"{tasks} tasks, power {power}"):
                expected = 0.4 * abs(TTestPower().solve_power(nobs=tasks, power=power, alpha=alpha))  # its sign is arbitrary
                assert compute_minimum_effect(tasks, 0.4, power=power, alpha=alpha) == approx(expected, abs=1e-6)
                for effect in (0.0, 0.1, 0.4, 2.0):
                    expected = 1 if effect * tasks**0.5 > 8 else TTestPower().power(effect, tasks, alpha)
                    assert compute_power(effect, tasks, alpha=alpha) == approx(expected, abs=1e-6)


def test_too_few_tasks_or_no_deviation_have_no_minimum_effect() -> None:
    assert compute_minimum_effect(5, 0.4) is None and compute_minimum_effect(6, 0.4) is not None
    assert compute_minimum_effect(7, 0.4, alpha=0.01) is None and compute_minimum_effect(8, 0.4, alpha=0.01) is not None
    assert compute_minimum_effect(30, 0.0) is None


def test_variance_of_differences_is_the_sum_of_components(subtests: pytest.Subtests) -> None:
    rng, draws = np.random.default_rng(SEED), size(20_000, nightly=100_000)
    ranks = rng.random(draws)
    for clustering in (0, 0.3, 0.7):
        for rank, others in {"same": ranks, "independent": rng.random(draws), "opposite": 1 - ranks}.items():
            a, b = draw_rates(ranks, 0.5, clustering), draw_rates(others, 0.7, clustering)
            components = Components(float(np.var(a - b)), float(np.mean(a * (1 - a))), float(np.mean(b * (1 - b))))
            for repeats in ((1, 1), (3, 3), (10, 2)):
                with subtests.test(f"{rank} rank, clustering {clustering}, {repeats} repeats"):
                    drawn = rng.binomial(repeats[0], a) / repeats[0] - rng.binomial(repeats[1], b) / repeats[1]
                    assert compute_task_deviation(components, *repeats) == approx(
                        float(drawn.std()), rel=size(0.02, nightly=0.01)
                    )


def test_components_of_a_pilot_are_unbiased() -> None:
    rng = np.random.default_rng(SEED)
    estimates = []
    for _ in range(1_000):
        shift = rng.normal(0, 0.6, (20, 1))
        pilot = estimate_components((shift + rng.normal(0, 0.5, (20, 3))).tolist(), rng.normal(0, 0.3, (20, 2)).tolist())
        assert pilot is not None
        estimates.append(pilot)
    assert np.mean(estimates, axis=0) == approx([0.36, 0.25, 0.09], rel=0.03)


def test_components_are_never_negative() -> None:
    a, b = [[0.0, 1.0]] * 6, [[1.0, 0.0]] * 6
    assert estimate_components(a, b) == (0.0, 0.5, 0.5)


def test_one_repeat_leaves_components_unknown() -> None:
    assert estimate_components([[1.0]] * 9, [[0.0, 1.0]] * 9) is None
    assert estimate_components([[0.0, 1.0]] * 9, [[1.0]] * 9) is None
    assert estimate_components([[1.0, 0.0], [1.0]], [[0.0, 1.0], [1.0, 1.0]]) is None


def test_components_of_binary_data_give_back_their_deviation() -> None:
    (arms,) = draw_experiments((0.5, 0.7), 0.3, tasks=40, repeats=4, experiments=1)
    components = estimate_components(*arms)
    assert components is not None and components.between > 0
    assert compute_task_deviation(components, 4) == approx(estimated(*arms).deviation)


def test_assumption_is_widest_at_one_repeat(subtests: pytest.Subtests) -> None:
    widest = compute_task_deviation(assume_binary_components(), 1)
    assert widest == approx(0.5**0.5)
    for rate in (0.2, 0.5, 0.9):
        for clustering in (0, 0.5, 1):
            for correlation in (0, 0.5, 1):
                with subtests.test(f"{rate}, {clustering}, {correlation}"):
                    assumption = assume_binary_components(rate, clustering, correlation)
                    assert compute_task_deviation(assumption, 1) <= widest + 1e-12
                    assert compute_task_deviation(assumption, 3) <= widest + 1e-12
    assert compute_task_deviation(assume_binary_components(clustering=1, correlation=0), 3) == approx(widest)
    assert assume_binary_components(0.5, 0.4, 0.25) == approx((0.15, 0.15, 0.15))


def test_intraclass_correlation_equals_pingouin(subtests: pytest.Subtests) -> None:
    for number, row in enumerate(PINGOUIN["correlation"]):
        with subtests.test(f"data {number}"):
            assert estimate_intraclass_correlation(row["values"]) == approx(row["correlation"], abs=1e-9)


def test_intraclass_correlation_recovers_clustering_with_unequal_repeats() -> None:
    rng = np.random.default_rng(SEED)
    sizes = rng.integers(1, 7, 4_000)
    values = [list(rng.normal(rng.normal(0, 0.3**0.5), 0.7**0.5, size)) for size in sizes]
    assert estimate_intraclass_correlation(values) == approx(0.3, abs=0.02)


def test_intraclass_correlation_needs_repeats_that_differ(subtests: pytest.Subtests) -> None:
    for name, values in {"one repeat": [[1.0], [2.0]], "one task": [[1.0, 2.0]], "all alike": [[1.0, 1.0]] * 3}.items():
        with subtests.test(name):
            assert estimate_intraclass_correlation(values) is None


def measure_power(differences: np.ndarray) -> float:
    return float(np.mean([estimated([[d] for d in row], [[0.0]] * len(row)).p_value < 0.05 for row in differences.tolist()]))


def test_power_of_normal_differences_is_80_per_cent(subtests: pytest.Subtests) -> None:
    low, high = bounds_of(0.8)
    for tasks in (15, 20, 30, 80):
        with subtests.test(f"normal, {tasks} tasks"):
            effect = compute_minimum_effect(tasks, 0.4)
            assert effect is not None
            drawn = np.random.default_rng(SEED).normal(effect, 0.4, (EXPERIMENTS, tasks))
            assert low <= measure_power(drawn) <= high


def test_power_of_passes_is_80_per_cent(subtests: pytest.Subtests) -> None:
    low, high = bounds_of(0.8)
    for clustering, tasks in ((0, 30), (0.3, 30), (0.7, 100)):
        with subtests.test(f"passes, clustering {clustering}, {tasks} tasks"):
            assert low <= measure_power_of_passes(clustering, tasks) <= high


def test_skewed_differences_have_more_power_than_stated() -> None:
    _, high = bounds_of(0.8)
    assert measure_power_of_passes(0.7, 30) == approx(0.8875, abs=0.03) and high < 0.8575


def measure_power_of_passes(clustering: float, tasks: int) -> float:
    """The share of experiments with 3 repeats that detect the minimum effect, where the same tasks pass easily in both arms."""
    arms = draw_experiments((detectable_rate(clustering, tasks), 0.5), clustering, tasks=tasks)
    return float(np.mean([estimated(a, b).p_value < 0.05 for a, b in arms]))


def detectable_rate(clustering: float, tasks: int) -> float:
    """The pass rate whose difference from .5 is the minimum effect with 3 repeats."""
    ranks = (np.arange(2_000) + 0.5) / 2_000
    b = draw_rates(ranks, 0.5, clustering)

    def excess(rate: float) -> float:
        a = draw_rates(ranks, rate, clustering)
        components = Components(float(np.var(a - b)), float(np.mean(a * (1 - a))), float(np.mean(b * (1 - b))))
        effect = compute_minimum_effect(tasks, compute_task_deviation(components, 3))
        assert effect is not None
        return rate - 0.5 - effect

    return float(brentq(excess, 0.55, 0.95, xtol=1e-5))


@pytest.mark.nightly("measures the fit below 30 tasks, and prints it")
def test_power_of_sign_flips_is_printed() -> None:
    for tasks in (6, 7, 8, 10, 20, 29):
        effect = compute_minimum_effect(tasks, 1.0)
        assert effect is not None
        power = measure_power(np.random.default_rng(SEED).normal(effect, 1.0, (EXPERIMENTS, tasks)))
        print(f"{tasks} tasks: power of sign flips {power:.3f} at an effect of {effect:.3f} deviations")
