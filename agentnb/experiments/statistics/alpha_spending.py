"""Levels of planned looks: how small a p value must be at each, so that all looks together err as seldom as one test.

By the spending function of O'Brien-Fleming type, ``4 - 4 * Phi(z / sqrt(t))`` with the upper ``alpha / 4`` quantile ``z`` at
the share ``t`` of the tasks. Boundaries are computed by recursion over the density of the paths that have crossed none; each is
given as the level of a fixed test at that look, whatever this test is.

Sources: Lan and DeMets (1983), Biometrika 70; Armitage, McPherson and Rowe (1969), Journal of the Royal Statistical Society A
132; Jennison and Turnbull (1999), Group Sequential Methods, chapters 7 and 9.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from agentnb.experiments.statistics.extras import load_extra
from agentnb.experiments.statistics.tasks import ALPHA

POINTS = 151
"""Points of the density at a look."""
FAR = 8.0
"""Standard deviations within which boundaries lie: a look whose own is farther away shows nothing."""


def spend_alpha(shares: Sequence[float], alpha: float = ALPHA) -> tuple[float, ...]:
    """Return the two-sided level of each look; ``shares``: of all tasks, rising, the last 1. One look has ``alpha`` itself."""
    import numpy as np

    special, optimize = load_extra("scipy.special"), load_extra("scipy.optimize")
    nodes, node_weights = np.polynomial.legendre.leggauss(POINTS)
    quantile = special.ndtri(1 - alpha / 4)
    levels: list[float] = []
    spent, places, mass = 0.0, np.zeros(1), np.ones(1)
    for before, share in zip((0.0, *shares), shares, strict=False):
        step, farthest = (share - before) ** 0.5, FAR * share**0.5
        planned = float(4 * special.ndtr(-quantile / share**0.5)) if share < 1 else alpha
        excess = partial(_excess, places=places / step, mass=mass, step=step, share=planned - spent)
        bound = farthest if excess(farthest) >= 0 else float(optimize.brentq(excess, 0.0, farthest, xtol=1e-12))
        levels.append(float(2 * special.ndtr(-bound / share**0.5)))
        steps = (bound * nodes[:, None] - places) / step
        density = np.exp(-(steps**2) / 2) @ mass / (step * (2 * np.pi) ** 0.5)
        spent, places, mass = planned, bound * nodes, bound * node_weights * density
    return tuple(levels)


def _excess(bound: float, *, places: Any, mass: Any, step: float, share: float) -> float:
    """Return by how much the probability of crossing the boundary is more than this share. ``places``: in steps."""
    ndtr = load_extra("scipy.special").ndtr
    return float(mass @ (ndtr(places - bound / step) + ndtr(-places - bound / step))) - share


def compare_widths(level: float, clusters: int, alpha: float = ALPHA) -> float:
    """Return how many times as wide an interval of t over clusters is at this level as at ``alpha``."""
    quantile = load_extra("scipy.special").stdtrit
    return float(quantile(clusters - 1, 1 - level / 2) / quantile(clusters - 1, 1 - alpha / 2))
