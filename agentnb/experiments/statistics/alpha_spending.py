"""Significance levels of planned looks, chosen so that all looks together have the error rate of a single test.

They follow the O'Brien-Fleming type spending function, ``4 - 4 * Phi(z / sqrt(t))``, where ``z`` is the upper ``alpha / 4``
quantile and ``t`` the share of the tasks. Boundaries are computed by recursion over the density of the paths that have not yet
crossed one. Each boundary is expressed as the level of a fixed test at that look, so that it applies to any test.

Sources: Lan and DeMets (1983), Biometrika 70; Armitage, McPherson and Rowe (1969), Journal of the Royal Statistical Society A
132; Jennison and Turnbull (1999), Group Sequential Methods, chapters 7 and 9.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from agentnb.experiments.statistics.extras import load_extra
from agentnb.experiments.statistics.task_values import ALPHA

POINTS = 151
"""Number of points of the density at each look."""
FAR = 8.0
"""Maximum boundary in standard deviations. A look with a boundary beyond it can never show a difference."""


def spend_alpha(shares: Sequence[float], alpha: float = ALPHA) -> tuple[float, ...]:
    """Return the two-sided level of each look. ``shares``: increasing shares of all tasks, ending with 1. A single look gets
    ``alpha``.
    """
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
    """Return the probability of crossing the boundary, minus this share. ``places``: positions in steps."""
    ndtr = load_extra("scipy.special").ndtr
    return float(mass @ (ndtr(places - bound / step) + ndtr(-places - bound / step))) - share


def compare_widths(level: float, clusters: int, alpha: float = ALPHA) -> float:
    """Return the width of a t interval over clusters at this level, relative to the width at ``alpha``."""
    quantile = load_extra("scipy.special").stdtrit
    return float(quantile(clusters - 1, 1 - level / 2) / quantile(clusters - 1, 1 - alpha / 2))
