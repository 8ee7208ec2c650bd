"""The minimum effect that is detected with 80 per cent power, found by simulating the actual test.

Experiments are drawn with a known difference and a fixed seed. For passes, failures and other marks from 0 to 1, a difference
makes failed runs in one arm pass, all with the same probability; for other numbers, it is added to each task. Both directions
are tried if possible, and the larger difference counts.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TypeAlias

from agentnb.experiments.statistics.clusters import ClusterDifferences, Labels, compute_differences, estimate_mean
from agentnb.experiments.statistics.extras import load_extra
from agentnb.experiments.statistics.sign_flips import required_clusters, sum_flips
from agentnb.experiments.statistics.task_values import ALPHA, MIN_TASKS, TaskValues, TooFewTasks

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Floats: TypeAlias = NDArray[np.float64]

POWER = 0.8
EXPERIMENTS = 500
SEED = 20_260
FLIP_BITS = 8
"""Number of bits of the code whose flips approximate those of the test. Noise in p values hardly changes how many are small."""
MAX_CLUSTERS = 100
"""Maximum number of clusters in a simulated experiment. With more clusters, means are normal, and so is the power."""
STEPS = 8
"""Number of times that the range of the effect is halved."""


def estimate_minimum_effect(
    a: TaskValues, b: TaskValues, *, tasks: Labels = None, clusters: Labels = None, alpha: float = ALPHA
) -> float | None:
    """Return the smallest difference that such a comparison detects with 80 per cent power, or None if it cannot be estimated.

    Takes the arguments of `estimate_difference`. Simulated experiments draw clusters like those observed, with frequencies as
    uncertain as their number suggests. Returns None if the differences of all clusters are equal, since that says nothing about
    other differences. ``alpha``: level of the test.
    """
    differences = compute_differences(a, b, tasks, clusters)
    if isinstance(differences, TooFewTasks) or differences.all_equal or _are_too_few(len(differences.clusters), alpha):
        return None
    return _of_numbers(differences, alpha) if differences.marks is None else _of_marks(differences, alpha)


def plan_minimum_effect_of_passes(
    sizes: Sequence[int], runs: int, pass_rate: float, clustering: float = 0.0, alpha: float = ALPHA
) -> float | None:
    """Return the smallest difference in the pass rate that is detected with 80 per cent power, or None.

    ``sizes``: number of tasks in each cluster; ``runs``: runs of a task in each arm; ``clustering``: intraclass correlation of
    the runs of a task, 0 if all tasks are alike. Tasks in the same cluster are assumed to vary as much as any other tasks.
    """
    import numpy as np

    if _are_too_few(len(sizes), alpha):
        return None
    rng, counts = np.random.default_rng(SEED), _spread(sizes)
    shape = (sum(counts), EXPERIMENTS)
    spread = 1 / clustering - 1 if clustering > 0 else 0.0
    rates = rng.beta(pass_rate * spread, (1 - pass_rate) * spread, shape) if spread else np.full(shape, pass_rate)
    starts = np.cumsum([0, *counts[:-1]])
    a, b = (np.add.reduceat(rng.binomial(runs, rates) / runs, starts, axis=0) for _ in "ab")
    tasks = np.repeat(np.asarray(counts, dtype=float)[:, None], EXPERIMENTS, axis=1)
    return _search_passes(a, b, tasks, runs * tasks, np.full(EXPERIMENTS, pass_rate), len(sizes), alpha=alpha)


def plan_minimum_effect_of_numbers(sizes: Sequence[int], deviation: float, alpha: float = ALPHA) -> float | None:
    """Return the smallest detectable difference for numbers whose task differences are normal with this standard deviation."""
    import numpy as np

    if _are_too_few(len(sizes), alpha) or not deviation:
        return None
    counts = np.asarray(_spread(sizes), dtype=float)[:, None]
    drawn = np.random.default_rng(SEED).normal(0, 1, (len(counts), EXPERIMENTS)) * counts**0.5
    return deviation * _search_numbers(drawn, np.repeat(counts, EXPERIMENTS, axis=1), len(sizes), alpha)


def _are_too_few(clusters: int, alpha: float) -> bool:
    return clusters < max(MIN_TASKS, required_clusters(alpha) or MIN_TASKS)


def _spread(sizes: Sequence[int]) -> list[int]:
    """Return the sizes of the simulated clusters; if there are many clusters, a sample that ranges from the smallest to the
    largest.
    """
    ordered, count = sorted(sizes), min(len(sizes), MAX_CLUSTERS)
    return [ordered[position * len(sizes) // count] for position in range(count)]


def _of_marks(differences: ClusterDifferences, alpha: float) -> float | None:
    """Estimate for marks: draw clusters like those observed, with arms swapped at random so that there is no difference on
    average.

    A passing and a failing cluster, each with half the weight, represent clusters that were not observed.
    """
    import numpy as np

    rng = np.random.default_rng(SEED)
    runs = sum(task.runs for cluster in differences.means for task in cluster)
    usual = max(runs // sum(map(len, differences.means)), 1)
    steps = max(len(differences.marks or ()) - 1, 1)
    seen = [
        (sum(task.a for task in cluster), sum(task.b for task in cluster), len(cluster), sum(task.runs for task in cluster))
        for cluster in differences.means
    ]
    a, b, tasks, numbers = np.array([*seen, (1, 1, 1, usual), (0, 0, 1, usual)], dtype=float).T
    weights = rng.standard_gamma([*[1.0] * len(seen), 0.5, 0.5], (EXPERIMENTS, len(a)))
    weights /= weights.sum(axis=1, keepdims=True)
    counts = rng.multinomial(min(len(seen), MAX_CLUSTERS), weights)
    chosen = np.repeat(np.tile(np.arange(len(a)), EXPERIMENTS), counts.ravel()).reshape(EXPERIMENTS, -1).T
    is_swapped = rng.random(chosen.shape) < 0.5
    arms = np.where(is_swapped, b[chosen], a[chosen]), np.where(is_swapped, a[chosen], b[chosen])
    rates = (weights @ (a + b)) / (weights @ tasks) / 2
    return _search_passes(
        *arms, tasks[chosen], steps * numbers[chosen], rates, len(seen), _estimate_diversity(differences), alpha
    )


def _estimate_diversity(differences: ClusterDifferences) -> float:
    """Return the share of the differences' variance that is due to the tasks and not to noise between repeats."""
    several = [task for cluster in differences.means for task in cluster if task.runs > 1]
    noise = sum((task.a * (1 - task.a) + task.b * (1 - task.b)) / (task.runs - 1) for task in several)
    mean = sum(task.a - task.b for task in several) / max(len(several), 1)
    whole = sum((task.a - task.b - mean) ** 2 for task in several)
    return max(1 - noise / whole, 0.0) if whole else 0.0


def _of_numbers(differences: ClusterDifferences, alpha: float) -> float:
    """Estimate for numbers: draw clusters like those observed, smoothed by normal noise, with an equally uncertain mean and
    deviation.

    ``+ 2``: for normal differences, 1 would be enough; for 6 lognormal ones, 1 would make the power .75.
    """
    import numpy as np

    rng = np.random.default_rng(SEED)
    totals, tasks = np.array([(sum(cluster), len(cluster)) for cluster in differences.clusters], dtype=float).T
    seen, kept = len(totals), min(len(totals), MAX_CLUSTERS)
    residuals = (totals - tasks * totals.sum() / tasks.sum()) * ((seen + 2) / (seen - 1)) ** 0.5
    noise = tasks * ((residuals / tasks) ** 2).mean() ** 0.5
    share = min(2 / seen**0.5, 1.0)
    chosen = rng.integers(0, seen, (kept, EXPERIMENTS))
    drawn = (1 - share**2) ** 0.5 * residuals[chosen] + share * noise[chosen] * rng.normal(0, 1, chosen.shape)
    drawn *= ((seen - 1) / rng.chisquare(seen - 1, EXPERIMENTS)) ** 0.5
    return _search_numbers(drawn, tasks[chosen], seen, alpha)


def _search_numbers(drawn: Floats, tasks: Floats, clusters: int, alpha: float) -> float:
    def is_detected(size: float) -> bool:
        return all(_measure_power(sign * drawn + size * tasks, tasks, clusters, alpha) >= POWER for sign in (1, -1))

    high = float(drawn.std() / tasks.mean())
    while not is_detected(high):
        high *= 2
    return _halve(is_detected, high)


def _search_passes(
    a: Floats,
    b: Floats,
    tasks: Floats,
    runs: Floats,
    rates: Floats,
    clusters: int,
    diversity: float = 0.0,
    alpha: float = ALPHA,
) -> float | None:
    """Compute the effect for arms with these sums of pass rates, by cluster and experiment; the sums do not include any effect
    yet.

    ``rates``: pass rate of each experiment; ``diversity``: share of clusters whose runs all pass if one does.
    """
    import numpy as np

    def least(first: Floats, second: Floats, rate: Floats, low: float) -> float | None:
        failed = np.rint(runs * (1 - first / tasks)).astype(int)
        lift = (tasks - first) / np.maximum(failed, 1)

        def is_detected(size: float) -> bool:
            chances = np.clip(size / np.maximum(1 - rate, 1e-9), 0, 1)
            rng = np.random.default_rng(SEED)
            passed = rng.binomial(failed, chances)
            together = failed * (rng.random(failed.shape) < chances)
            passed = np.where(rng.random(failed.shape) < diversity, together, passed)
            return _measure_power(first - second + lift * passed, tasks, clusters, alpha, is_binary=True) >= POWER

        highest = float(1 - rate.mean())
        if low >= highest or not is_detected(highest):
            return None
        return low if low and is_detected(low) else _halve(is_detected, highest, low)

    effect: float | None = None
    both = (a, b, rates), (tasks - a, tasks - b, 1 - rates)
    for direction in both if rates.mean() < 0.5 else both[::-1]:  # the direction that usually needs more first
        size = least(*direction, effect or 0.0)
        effect = effect if size is None else size
    return effect


def _halve(is_detected: Callable[[float], bool], high: float, low: float = 0.0) -> float:
    for _ in range(STEPS):
        middle = (low + high) / 2
        low, high = (low, middle) if is_detected(middle) else (middle, high)
    return high


def _measure_power(totals: Floats, tasks: Floats, clusters: int, alpha: float, *, is_binary: bool = False) -> float:
    """Return the share of experiments, given in columns, that show a positive mean."""
    import numpy as np

    special = load_extra("scipy.special")
    if clusters > len(totals):
        mean = totals.sum() / tasks.sum()
        error = (totals - mean * tasks).std() / tasks.mean() / clusters**0.5
        return float(special.ndtr(mean / error - special.ndtri(1 - alpha / 2)))
    order = np.argsort(-np.abs(totals), axis=0, kind="stable")
    sums = np.abs(sum_flips(np.take_along_axis(totals, order, axis=0), FLIP_BITS))
    is_shown = (sums >= sums[0] * (1 - 1e-9)).mean(axis=0) < alpha
    if is_binary:
        usual = np.sqrt((totals**2).sum(axis=0) / np.maximum((totals != 0).sum(axis=0), 1))
        totals, tasks = np.concatenate([totals, [usual, -usual]]), np.pad(tasks, ((0, 2), (0, 0)), constant_values=1)
    mean, error, freedom = estimate_mean(totals, tasks)
    return float((is_shown & (mean > special.stdtrit(freedom, 1 - alpha / 2) * error)).mean())
