"""Outcomes of experiments with a known truth: pass rates of tasks are Beta, equally ranked in both arms."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from property_settings import size
from scipy.special import betaincinv
from scipy.stats import binom

from agentnb.experiments.statistics.paired import Difference, estimate_difference

SEED = 29
EXPERIMENTS = size(200, nightly=2_000)
Arms = tuple[list[list[float]], list[list[float]]]


def draw_rates(quantiles: np.ndarray, rate: float, clustering: float) -> np.ndarray:
    """Return pass rates of tasks by rank; the intraclass correlation of their runs is ``clustering``."""
    if clustering == 0:
        return np.full(quantiles.shape, rate)
    spread = 1 / clustering - 1
    return betaincinv(rate * spread, (1 - rate) * spread, quantiles)


def draw_experiments(
    rates: tuple[float, float], clustering: float, *, tasks: int, repeats: int = 3, experiments: int = EXPERIMENTS
) -> Iterator[Arms]:
    """Yield the values of both arms, experiment by experiment."""
    rng = np.random.default_rng(SEED)
    ranks = rng.random((experiments, tasks))
    arms = []
    for rate in rates:
        chances = draw_rates(ranks, rate, clustering)[..., None]
        arms.append((rng.random((experiments, tasks, repeats)) < chances).astype(float).tolist())
    return zip(*arms, strict=True)


def measure_coverage(rates: tuple[float, float], clustering: float, *, tasks: int, repeats: int = 3) -> float:
    """Return the share of experiments whose interval contains the true difference; a missing interval does not."""
    truth, covered = rates[0] - rates[1], 0
    for a, b in draw_experiments(rates, clustering, tasks=tasks, repeats=repeats):
        difference = estimate_difference(a, b)
        assert isinstance(difference, Difference)
        if difference.interval is not None:
            covered += difference.interval[0] <= truth <= difference.interval[1]
    return covered / EXPERIMENTS


def bounds_of(share: float) -> tuple[float, float]:
    """Return bounds that contain the share of this many experiments with a probability of 99.9 per cent."""
    low, high = binom.ppf((0.0005, 0.9995), EXPERIMENTS, share) / EXPERIMENTS
    return float(low), float(high)
