"""Minimum effects: experiments with this effect show a difference four times in five."""

from __future__ import annotations

import numpy as np
import pytest
from arms import Values, estimated
from drawn_outcomes import SEED
from property_settings import size
from pytest import approx
from scipy.stats import binom
from statsmodels.stats.power import TTestPower

from agentnb.experiments.statistics.minimum_effect import (
    estimate_minimum_effect,
    plan_minimum_effect_of_numbers,
    plan_minimum_effect_of_passes,
)

EXPERIMENTS = size(100, nightly=2_000)
LEAST, MOST = binom.ppf(0.0005, EXPERIMENTS, 0.78) / EXPERIMENTS, binom.ppf(0.9995, EXPERIMENTS, 0.85) / EXPERIMENTS


def draw_passes(rng: np.random.Generator, rates: np.ndarray, effect: float, repeats: int) -> tuple[Values, Values]:
    """Draw outcomes with these rates; some failed tasks pass in the first arm: over tasks, the effect."""
    lifted = rates + effect * (1 - rates) / (1 - rates.mean())
    a, b = ((rng.random((len(rates), repeats)) < arm[:, None]).astype(float).tolist() for arm in (lifted, rates))
    return a, b


@pytest.mark.nightly("by day in drawn worlds")
def test_planned_effect_on_pass_rates_is_detected_in_80_percent(subtests: pytest.Subtests) -> None:
    cases = {"15 tasks": (15, 1, 0.4), "29 tasks": (29, 1, 0.4), "30 tasks": (30, 1, 0.4), "repeats": (15, 5, 0.3)}
    for name, (tasks, repeats, rate) in cases.items():
        with subtests.test(name):
            effect = plan_minimum_effect_of_passes([1] * tasks, repeats, rate)
            assert effect is not None and effect <= 1 - rate
            rng = np.random.default_rng(SEED)
            drawn = [draw_passes(rng, np.full(tasks, rate), effect, repeats) for _ in range(EXPERIMENTS)]
            power = np.mean([estimated(*arms).p_value < 0.05 for arms in drawn])
            assert LEAST <= power <= MOST


@pytest.mark.slow("simulates the effect of each of 200 experiments")
@pytest.mark.nightly("by day in drawn worlds")
def test_stated_effect_is_detected_in_80_percent_of_repetitions(subtests: pytest.Subtests) -> None:
    even, uneven = np.full(29, 0.4), np.tile([0.05, 0.2, 0.4, 0.6, 0.75], 3)
    for name, rates, repeats in (("alike", even, 1), ("uneven with repeats", uneven, 5)):
        with subtests.test(name):
            rng, shown = np.random.default_rng(SEED), []
            for _ in range(200):
                effect = estimate_minimum_effect(*draw_passes(rng, rates, 0.0, repeats))
                assert effect is not None
                shown.append(estimated(*draw_passes(rng, rates, min(effect, 0.6), repeats)).p_value < 0.05)
            low, high = binom.ppf((0.0005, 0.9995), len(shown), (0.78, 0.85))
            assert low <= sum(shown) <= high


def test_planned_effect_of_many_numbers_equals_that_of_t_test(subtests: pytest.Subtests) -> None:
    for tasks in (30, 100, 500):
        with subtests.test(f"{tasks} tasks"):
            expected = 0.4 * abs(TTestPower().solve_power(nobs=tasks, power=0.8, alpha=0.05))
            assert plan_minimum_effect_of_numbers([1] * tasks, 0.4) == approx(expected, rel=0.08)


def test_minimum_effect_is_larger_when_tasks_react_differently() -> None:
    rng = np.random.default_rng(SEED)
    rates = np.where(rng.random(40) < 0.5, 0.95, 0.05)
    alike = draw_passes(rng, rates, 0.0, 5)
    apart = [*alike[0][:30], *[[1.0] * 5, [0.0] * 5] * 5], [*alike[1][:30], *[[0.0] * 5, [1.0] * 5] * 5]
    one, other = estimate_minimum_effect(*alike), estimate_minimum_effect(*apart)
    assert one is not None and other is not None and other > 1.5 * one


def test_minimum_effect_is_larger_with_clusters_than_single_tasks() -> None:
    rng = np.random.default_rng(SEED)
    a, b = draw_passes(rng, np.full(60, 0.4), 0.0, 1)
    alone, together = estimate_minimum_effect(a, b), estimate_minimum_effect(a, b, clusters=[n // 6 for n in range(60)])
    assert alone is not None and together is not None and together > alone


def test_impossible_minimum_effect_is_never_stated(subtests: pytest.Subtests) -> None:
    all_pass: Values = [[1.0]] * 30
    cases = {
        "six tasks": estimate_minimum_effect([[1.0], [0.0]] * 3, [[0.0], [1.0], [1.0]] * 2),
        "five tasks": plan_minimum_effect_of_passes([1] * 5, 9, 0.5),
        "planned for six": plan_minimum_effect_of_passes([1] * 6, 1, 0.5),
        "no spread": plan_minimum_effect_of_numbers([1] * 30, 0.0),
        "all pass": estimate_minimum_effect(all_pass, all_pass),
    }
    for name, effect in cases.items():
        with subtests.test(name):
            assert effect is None
    for rate in (0.02, 0.1, 0.5, 0.9, 0.98):
        effect = plan_minimum_effect_of_passes([1] * 12, 2, rate)
        assert effect is None or effect <= max(rate, 1 - rate)


def test_minimum_effect_is_deterministic_and_similar_for_swapped_arms() -> None:
    a, b = draw_passes(np.random.default_rng(SEED), np.full(20, 0.5), 0.1, 2)
    one = estimate_minimum_effect(a, b)
    assert one == estimate_minimum_effect(a, b) and one == approx(estimate_minimum_effect(b, a), rel=0.1)


def test_minimum_effect_scales_with_the_numbers() -> None:
    rng = np.random.default_rng(SEED)
    a, b = rng.normal(20, 3, (25, 2)), rng.normal(20, 3, (25, 2))
    one, other = estimate_minimum_effect(a.tolist(), b.tolist()), estimate_minimum_effect((7 * a).tolist(), (7 * b).tolist())
    assert one is not None and other == approx(7 * one)
