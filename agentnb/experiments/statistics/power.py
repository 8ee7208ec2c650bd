"""What an experiment can see: its minimum detectable effect.

Formulas are those of the paired t test. Below 30 tasks experiments are analysed by sign flips, which on normal differences
(6,000 simulated experiments each, at the effect that t detects with a power of .8) reach .79 to .80 from 10 tasks on, .78 with
8, .76 with 7 and .63 with 6. With 5 no p value can be below .05, and there is no minimum effect.

Passes and fails at the minimum effect (2,000 simulated experiments, 3 repeats, Beta rates with the same ranks in both arms)
reach .80 and .82 with 30 tasks and a clustering of 0 and .3. With a clustering of .7 differences are skewed, and their mean
grows with their deviation: .89 with 30 tasks, .84 with 60 and .82 with 100. There the stated effect is too large.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import isnan
from typing import NamedTuple

from agentnb.experiments.statistics.extras import load_extra
from agentnb.experiments.statistics.tasks import MIN_TASKS, TaskValues, compute_mean

POWER = 0.8
ALPHA = 0.05


class Components(NamedTuple):
    """Variance components of the differences of tasks."""

    between: float
    """Variance over tasks of the true difference."""
    within_a: float
    """Variance of repeats of a task in the first arm, averaged over tasks."""
    within_b: float


def compute_task_deviation(components: Components, repeats_a: int, repeats_b: int | None = None) -> float:
    """Return the standard deviation of the differences of tasks: ``sqrt(between + within_a / K_a + within_b / K_b)``.

    This is the law of total variance, and was checked by simulation: over 200,000 tasks whose pass rates are Beta, with
    clustering of 0, .3 and .7 and equal, independent or opposite ranks in the arms, the variance of differences is within
    1 per cent of the formula, for 1, 3 and 10 repeats.
    """
    within_b = components.within_b / (repeats_a if repeats_b is None else repeats_b)
    return float((components.between + components.within_a / repeats_a + within_b) ** 0.5)


def estimate_components(a: TaskValues, b: TaskValues) -> Components | None:
    """Estimate variance components of a pilot, unbiased but for the variance between tasks, which is at least 0.

    Takes tasks with two or more repeats in both arms. None with fewer than two of them: with one repeat a task only the sum of
    all components is known, the square of `Difference.deviation`.
    """
    tasks = [(one, other) for one, other in zip(a, b, strict=True) if len(one) > 1 and len(other) > 1]
    if len(tasks) < 2:
        return None
    differences = [compute_mean(one) - compute_mean(other) for one, other in tasks]
    within = [(_compute_variance(one), _compute_variance(other)) for one, other in tasks]
    noise = [w_a / len(one) + w_b / len(other) for (w_a, w_b), (one, other) in zip(within, tasks, strict=True)]
    between = _compute_variance(differences) - compute_mean(noise)
    return Components(max(between, 0.0), compute_mean([one for one, _ in within]), compute_mean([other for _, other in within]))


def assume_binary_components(pass_rate: float = 0.5, clustering: float = 0.0, correlation: float = 1.0) -> Components:
    """Return the components of an outcome that passes or fails, by assumptions: two arms alike, by default without clustering.

    ``clustering`` is the intraclass correlation of an arm, ``correlation`` that of the pass rates of tasks in both arms. With
    one repeat the default is the widest assumption if the arms are not negatively correlated. With K repeats it is the widest
    only if ``correlation`` is at least ``1 - 1 / K``: if tasks react to a variant in different ways, more repeats do not
    average that out. The widest for any number of repeats is ``clustering=1, correlation=0``, as if there was one repeat.
    """
    variance = pass_rate * (1 - pass_rate)
    within = variance * (1 - clustering)
    return Components(2 * variance * clustering * (1 - correlation), within, within)


def compute_minimum_effect(tasks: int, deviation: float, *, power: float = POWER, alpha: float = ALPHA) -> float | None:
    """Return the smallest difference that is detected with this power; None if there are too few tasks to detect any.

    A ``deviation`` of 0 was estimated of differences that are all equal: the minimum effect is unknown, None. How well it fits
    below 30 tasks is said above.
    """
    if not deviation or tasks < MIN_TASKS or 2.0 ** (1 - tasks) >= alpha:  # the smallest p value of sign flips
        return None
    high = 1.0
    while compute_power(high, tasks, alpha) < power:
        high *= 2
    root = load_extra("scipy.optimize").brentq(lambda size: compute_power(size, tasks, alpha) - power, 0.0, high, xtol=1e-12)
    return float(root) * deviation


def estimate_intraclass_correlation(values: TaskValues) -> float | None:
    """Estimate how alike repeats of a task are in one arm: the correlation ICC(1) of a one-way analysis of variance.

    May be slightly negative. None without two tasks and two repeats of one of them, or if all values are equal. Source: Shrout
    and Fleiss (1979), Psychological Bulletin 86; for unequal repeats Donner (1986), International Statistical Review 54.
    """
    tasks = [task for task in values if len(task)]
    sizes = [len(task) for task in tasks]
    total = sum(sizes)
    if len(tasks) < 2 or total == len(tasks):
        return None
    means = [compute_mean(task) for task in tasks]
    overall = compute_mean([value for task in tasks for value in task])
    between = sum(size * (mean - overall) ** 2 for size, mean in zip(sizes, means, strict=True)) / (len(tasks) - 1)
    squares = sum((value - mean) ** 2 for task, mean in zip(tasks, means, strict=True) for value in task)
    within = squares / (total - len(tasks))
    size = (total - sum(size**2 for size in sizes) / total) / (len(tasks) - 1)
    whole = between + (size - 1) * within
    return (between - within) / whole if whole > 0 else None


def compute_power(effect_size: float, tasks: int, alpha: float = ALPHA) -> float:
    """Return the probability that a two-sided t test of this many tasks detects the effect.

    ``effect_size``: the effect in standard deviations of the differences of tasks.
    """
    special = load_extra("scipy.special")
    freedom, shift = tasks - 1, effect_size * tasks**0.5
    limit = float(special.stdtrit(freedom, 1 - alpha / 2))
    opposite = float(special.nctdtr(freedom, shift, -limit))  # NaN where it is below the precision of floats
    return 1 - float(special.nctdtr(freedom, shift, limit)) + (0.0 if isnan(opposite) else opposite)


def _compute_variance(values: Sequence[float]) -> float:
    mean = compute_mean(values)
    return sum((value - mean) ** 2 for value in values) / (len(values) - 1)
