"""Comparisons of any runs equal a second computation from the runs themselves."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from drawn_worlds import Drawn, compared
from plain_comparison import compute
from property_settings import size
from pytest import approx

EXPERIMENTS = size(60, nightly=1_000)


def draw_any(rng: Random, *, is_recorded: bool) -> list[Drawn]:
    """Runs of one or two models and up to three repeats, some lost in each way, in any order."""
    is_binary, models = is_recorded or rng.random() < 0.5, rng.choice((["one"], ["one", "two"]))
    benchmarks = rng.choice(([""], ["airline", "retail"])) if is_recorded else [""]
    clusters = rng.choice((0, 3, 7)) if not is_recorded else 0
    found = []
    for benchmark in benchmarks:
        for task in range(rng.randint(3, 20)):
            cluster = f"c{task % clusters}" if clusters else ""
            for arm in "ab":
                for model in models:
                    for repeat in range(rng.randint(0 if rng.random() < 0.2 else 1, 3)):
                        value: Any = rng.random() < 0.5 if is_binary else rng.choice((0.0, 0.5, 1.0, rng.gauss(0, 1)))
                        ended = rng.choice(("completed",) * 8 + ("limited", "failed"))
                        lost = rng.random() < 0.1 and ended == "completed"
                        found.append(Drawn(f"{task}", arm, None if lost else value, repeat, model, cluster, benchmark, ended))
    rng.shuffle(found)
    return found


def test_comparisons_equal_a_second_computation(subtests: pytest.Subtests) -> None:
    for number in range(EXPERIMENTS):
        is_recorded = number % 2 == 1
        drawn = draw_any(Random(number), is_recorded=is_recorded)
        found, plain = compared(drawn, is_recorded=is_recorded), compute(drawn, is_recorded=is_recorded)
        with subtests.test(f"draw {number}"):
            if found.difference is not None:
                assert found.difference == approx(plain.difference, abs=1e-12)
            flips = [(one.task, one.model, one.repeat, one.a, one.b) for one in found.flips.itertuples(index=False)]
            assert sorted(flips) == sorted(plain.flips)
