"""Comparisons of any runs equal a second computation from the runs, p and intervals equal scipy's."""

from __future__ import annotations

from collections import defaultdict
from random import Random
from typing import Any, NamedTuple

import numpy as np
import pytest
from drawn_worlds import Drawn, compared
from plain_comparison import cluster_robust, compute, mean, value_of
from property_settings import size
from pytest import approx
from scipy import stats

EXPERIMENTS = size(20, nightly=1_000)


def draw_any(rng: Random, *, is_recorded: bool) -> list[Drawn]:
    """Draw runs of one or two models and up to three repeats, some lost in each way, in any order."""
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
        nested = rng.choice((0, 2)) if is_recorded else 0
        found.append(Drawn(task, arm, value, repeat, model, cluster, benchmark, ended, nested))
    rng.shuffle(found)
    return found


def test_comparisons_match_an_independent_second_computation(subtests: pytest.Subtests) -> None:
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
            pairs = [(unit.model, unit.repeat, mean(unit.a), mean(unit.b)) for unit in found.units if unit.is_paired]
            assert sorted(pairs, key=str) == sorted([pair[1:] for pair in plain.pairs], key=str)
            flips = [(row.run_a, row.run_b, row.a, row.b) for row in found.flips.itertuples(index=False)]
            assert sorted(flips) == plain.flips
            of_clusters = [clusters[task] if not is_recorded else f"{benchmark}{task}" for benchmark, task in plain.differences]
            assert (found.difference is None) == (len({*of_clusters}) < 6)
            if found.difference is not None:
                assert found.difference == approx(plain.difference, abs=1e-12) and found.tasks == len(plain.differences)
                assert [one.value for one in found.extremes or ()] == approx(extremes(drawn, is_recorded=is_recorded))
            if found.interval is not None and found.p_value is not None:
                is_binary = all(isinstance(one.value, bool | None) for one in drawn)
                test = MeanTest([*plain.differences.values()], of_clusters, is_binary)
                check_interval(test, found.interval, found.p_value)


def extremes(drawn: list[Drawn], *, is_recorded: bool) -> list[float]:
    """Return the extreme differences, with missing values at the least or greatest seen, or None for complete data."""
    values = [value_of(one, is_recorded=is_recorded) for one in drawn]
    seen = [one for one in values if one is not None]
    low, high = (0, 1) if {*seen} <= {0, 1} else (min(seen), max(seen))
    found = []
    for ends in ({"a": low, "b": high}, {"a": high, "b": low}) if None in values else ():
        filled = [
            one._replace(value=ends[one.arm] if value is None else value, ended="completed")
            for one, value in zip(drawn, values, strict=True)
        ]
        found.append(compute(filled, is_recorded=is_recorded).difference)
    return found


class MeanTest(NamedTuple):
    """Test a mean over tasks twice: both tests must reject it."""

    differences: list[float]
    clusters: list[str]
    is_binary: bool

    def p_value(self, theta: float = 0.0) -> float:
        """Return the larger p value of cluster sign flips and of t."""
        of_cluster: dict[str, float] = defaultdict(float)
        for difference, cluster in zip(self.differences, self.clusters, strict=True):
            of_cluster[cluster] += difference - theta
        how = {"permutation_type": "samples", "vectorized": True, "n_resamples": 2**15}
        flipped = stats.permutation_test(([*of_cluster.values()],), np.sum, **how, rng=np.random.default_rng(1)).pvalue
        differences, clusters = self.differences, self.clusters
        if self.is_binary:  # for t, each arm has one more task with a typical difference (Bonett and Price 2012)
            usual = float(np.sqrt(np.mean([one**2 for one in differences if one])))
            differences, clusters = [*differences, usual, -usual], [*clusters, "one more", "another"]
        error, freedom = cluster_robust(differences, clusters)
        return max(float(flipped), float(2 * stats.t.sf(abs(mean(differences) - theta) / error, freedom)))


def check_interval(test: MeanTest, interval: tuple[float, float], p_value: float) -> None:
    """P equals that of the test, and is .05 at limits within the range of passes. Beyond 15 clusters, flips are drawn."""
    count = len({*test.clusters})
    assert p_value == approx(test.p_value(), abs=1e-9 if count <= 15 else 0.02)
    for limit, outwards in zip(interval, (-1e-6, 1e-6), strict=True) if count <= 12 else ():
        assert test.p_value(limit - outwards) >= 0.05 - 1e-5
        if not test.is_binary or abs(limit) < 1:
            assert test.p_value(limit + outwards) <= 0.05 + 1e-5
