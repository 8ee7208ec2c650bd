"""Variance components."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from drawn_outcomes import SEED, draw_rates
from property_settings import size
from pytest import approx

from agentnb.experiments.statistics.power import (
    Components,
    compute_task_deviation,
    estimate_components,
    estimate_intraclass_correlation,
)

PINGOUIN = json.loads(Path(__file__).with_name("pingouin_numbers.json").read_text(encoding="utf-8"))


def test_variance_of_differences_is_the_sum_of_components(subtests: pytest.Subtests) -> None:
    rng, draws = np.random.default_rng(SEED), size(20_000, nightly=100_000)
    ranks = rng.random(draws)
    for clustering in (0, 0.3, 0.7):
        for rank, others in {"same": ranks, "independent": rng.random(draws), "opposite": 1 - ranks}.items():
            a, b = draw_rates(ranks, 0.5, clustering), draw_rates(others, 0.7, clustering)
            components = Components(float(np.var(a - b)), float(np.mean(a * (1 - a) + b * (1 - b))))
            for repeats in (1, 3, 10):
                with subtests.test(f"{rank} rank, clustering {clustering}, {repeats} repeats"):
                    drawn = (rng.binomial(repeats, a) - rng.binomial(repeats, b)) / repeats
                    assert compute_task_deviation(components, repeats) == approx(
                        float(drawn.std()), rel=size(0.02, nightly=0.01)
                    )


def test_variance_components_of_a_pilot_are_unbiased() -> None:
    rng = np.random.default_rng(SEED)
    estimates = []
    for _ in range(1_000):
        shift, of_model = rng.normal(0, 0.6, (20, 1, 1)), rng.normal(0, 0.8, (20, 2, 1))
        pilot = estimate_components((shift + of_model + rng.normal(0, 0.5, (20, 2, 3))).tolist())
        assert pilot is not None
        estimates.append(pilot)
    assert np.mean(estimates, axis=0) == approx([0.36 + 0.64 / 2, 0.25], rel=0.03)


def test_variance_components_are_never_negative() -> None:
    assert estimate_components([[[0.0, 1.0]], [[1.0, 0.0]]] * 3) == (0.0, 0.5)


def test_variance_components_are_unknown_with_one_repeat() -> None:
    assert estimate_components([[[1.0]]] * 9) is None
    assert estimate_components([[[1.0, 0.0]], [[1.0]], [[1.0], [0.0]]]) is None


def test_intraclass_correlation_equals_that_of_pingouin(subtests: pytest.Subtests) -> None:
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
