"""Comparisons of any runs equal a second computation from the runs themselves, p and intervals that of scipy."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Any

import numpy as np
import pytest
from drawn_worlds import Drawn, compared
from plain_comparison import cluster_robust, compute, mean
from property_settings import size
from pytest import approx
from scipy import stats

EXPERIMENTS = size(60, nightly=1_000)


def draw_any(rng: Random, *, is_recorded: bool) -> list[Drawn]:
    """Runs of one or two models and up to three repeats, some lost in each way, in any order."""
    is_binary, models = is_recorded or rng.random() < 0.5, rng.choice((["one"], ["one", "two"]))
    benchmarks = rng.choice((["airline"], ["airline", "retail"])) if is_recorded else [""]
    clusters = 0 if is_recorded else rng.choice((0, 0, 7, 9))
    places = [
        (benchmark, str(task), f"c{int(task**0.5 * 2) % clusters}" if clusters else "", model, arm, repeat)
        for benchmark in benchmarks
        for task in range(rng.randint(3, 20))
        for model in models
        for arm in "ab"
        for repeat in range(rng.choice((0, 1, 1, 1, 2, 3)))
    ]
    found = []
    for benchmark, task, cluster, model, arm, repeat in places:
        value: Any = rng.random() < 0.5 if is_binary else rng.choice((0.0, 0.5, 1.0, rng.gauss(0, 1)))
        ended = rng.choice(("completed",) * 8 + ("limited", "failed"))
        value = None if ended == "completed" and rng.random() < 0.1 else value
        found.append(Drawn(task, arm, value, repeat, model, cluster, benchmark, ended))
    rng.shuffle(found)
    return found


def test_comparisons_equal_a_second_computation(subtests: pytest.Subtests) -> None:
    for number in range(EXPERIMENTS):
        is_recorded = number % 2 == 1
        drawn = draw_any(Random(number), is_recorded=is_recorded)
        found, plain = compared(drawn, is_recorded=is_recorded), compute(drawn, is_recorded=is_recorded)
        clusters = {one.task: one.cluster or one.task for one in drawn}
        with subtests.test(f"draw {number}"):
            assert len(found.units) - len(found.left_out) == len(plain.pairs)
            assert len(found.left_out) == plain.unpaired
            counts = {arm: {state: count for state, count in of.items() if count} for arm, of in found.counts.items()}
            assert counts == plain.counts
            pairs = [(one.model, one.repeat, mean(one.a), mean(one.b)) for one in found.units if one.is_paired]
            assert sorted(pairs, key=str) == sorted([pair[1:] for pair in plain.pairs], key=str)
            assert found.tasks == len(plain.differences)
            flips = [(one.run_a, one.run_b, one.a, one.b) for one in found.flips.itertuples(index=False)]
            assert sorted(flips) == plain.flips
            of_clusters = [clusters[task] if not is_recorded else f"{benchmark}{task}" for benchmark, task in plain.differences]
            assert (found.difference is None) == (len({*of_clusters}) < 6)
            if found.difference is not None:
                assert found.difference == approx(plain.difference, abs=1e-12)
            if found.interval is not None:
                check_interval(found.interval, found.p_value, [*plain.differences.values()], of_clusters)


def check_interval(interval: tuple[float, float], p_value: float | None, differences: list[float], clusters: list[str]) -> None:
    """P is that of the test, and the limits are where it is .05."""
    assert p_value == approx(p_of(differences, clusters), abs=1e-9 if len({*clusters}) <= 15 else 0.02)
    width = 1e-6 * (interval[1] - interval[0])
    if len({*clusters}) <= 12:
        for limit, outwards in zip(interval, (-width, width), strict=True):
            assert p_of([one - limit + outwards for one in differences], clusters) >= 0.05 - 1e-6
            assert p_of([one - limit - outwards for one in differences], clusters) <= 0.05 + 1e-6


def p_of(differences: Sequence[float], clusters: Sequence[str]) -> float:
    """The p value of a mean of 0: the larger of those of flipped signs of whole clusters and of t."""
    sums = np.array([sum(d for d, own in zip(differences, clusters, strict=True) if own == one) for one in sorted({*clusters})])
    flipped = stats.permutation_test(
        (sums,), np.sum, permutation_type="samples", n_resamples=2**14, vectorized=True, rng=np.random.default_rng(1)
    )
    error, freedom = cluster_robust(differences, clusters)
    return max(float(flipped.pvalue), float(2 * stats.t.sf(abs(np.mean(differences)) / error, freedom)))
