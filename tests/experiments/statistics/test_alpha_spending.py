"""Levels of planned looks: equal to the literature, and crossed by drawn paths as often as they should be."""

from __future__ import annotations

import numpy as np
import pytest
from drawn_outcomes import SEED
from property_settings import size
from pytest import approx
from scipy.stats import norm

from agentnb.experiments.statistics.alpha_spending import compare_widths, spend_alpha

PUBLISHED = {
    2: (2.963, 1.969),
    3: (3.710, 2.511, 1.993),
    5: (4.877, 3.357, 2.680, 2.290, 2.031),
}
"""Boundaries of equally spaced looks at a two-sided level of .05: O'Brien-Fleming spending in gsDesign and rpact."""


def test_boundaries_of_equal_looks_match_the_literature(subtests: pytest.Subtests) -> None:
    for count, boundaries in PUBLISHED.items():
        with subtests.test(looks=count):
            levels = spend_alpha([number / count for number in range(1, count + 1)])
            assert norm.isf(np.array(levels) / 2) == approx(boundaries, abs=6e-4)
    assert spend_alpha([1.0]) == approx((0.05,))


def test_simulated_paths_cross_boundaries_as_often_as_alpha_spending_allows() -> None:
    shares, draws = np.array([0.3, 0.45, 0.8, 1.0]), size(200_000, nightly=2_000_000)
    steps = np.diff(shares, prepend=0.0) ** 0.5
    paths = np.cumsum(np.random.default_rng(SEED).normal(0, 1, (draws, 4)) * steps, axis=1) / shares**0.5
    crossed = np.abs(paths) > norm.isf(np.array(spend_alpha([*shares])) / 2)
    spent = 4 * norm.sf(norm.isf(0.05 / 4) / shares**0.5)
    spread = 4 * (0.05 / draws) ** 0.5
    assert np.logical_or.accumulate(crossed, axis=1).mean(axis=0) == approx(spent, abs=spread)


def test_looks_too_early_for_any_result_spend_no_alpha() -> None:
    levels = spend_alpha([0.01, 0.02, 1.0])
    assert levels[0] < 1e-12 and levels[2] == approx(0.05)


def test_interval_at_a_stricter_level_is_wider() -> None:
    assert compare_widths(0.05, 12) == approx(1)
    assert compare_widths(0.003, 1_000_000) == approx(norm.isf(0.0015) / norm.isf(0.025), rel=1e-5)
    assert compare_widths(0.003, 12) > compare_widths(0.003, 100)
