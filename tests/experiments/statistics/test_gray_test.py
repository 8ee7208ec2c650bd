"""Rounds until a loop in two arms, with completion as a competing event."""

from __future__ import annotations

import json
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from pytest import approx

from agentnb.experiments.statistics.gray_test import compare_survival
from agentnb.plots.survival_plot import RunEnd

COMPRISK = json.loads(Path(__file__).with_name("comprisk_numbers.json").read_text(encoding="utf-8"))


def ends_of(*runs: tuple[object, int, str]) -> list[RunEnd]:
    return [RunEnd(unit, at, end) for unit, at, end in runs]  # type: ignore[arg-type]


def score_of(runs: list[tuple[int, str, str]]) -> float:
    """Compute Gray's score of the first arm, with all runs in one unit."""
    arms = [ends_of(*[(0, at, end) for at, end, arm in runs if arm == name]) for name in "ab"]
    score = compare_survival(*arms).statistic
    assert score is not None
    return score


def test_gray_test_score_equals_that_of_comprisk(subtests: pytest.Subtests) -> None:
    for number, row in enumerate(COMPRISK["gray"]):
        with subtests.test(f"data {number}"):
            assert score_of(row["runs"]) == approx(row["score"], abs=1e-9)


def test_cumulative_incidence_equals_that_of_comprisk(subtests: pytest.Subtests) -> None:
    for number, row in enumerate(COMPRISK["incidence"]):
        with subtests.test(f"data {number}"):
            arm = ends_of(*[(place, at, end) for place, (at, end) in enumerate(row["runs"])])
            steps = compare_survival(arm, []).a.steps
            assert {str(step.round): step.share for step in steps} == approx(row["shares"], abs=1e-9)
            assert all(step.low <= step.share <= step.high for step in steps) and steps[-1].low < steps[-1].high


def test_p_value_is_computed_by_swapping_whole_tasks() -> None:
    rng = np.random.default_rng(29)
    runs = [
        (task, int(rng.integers(1, 5 + 3 * (arm == "b"))), str(rng.choice(["loop", "completed", "censored"])), arm)
        for task, arm, _ in product(range(7), "ab", range(2))
    ]
    scores = []
    for swapped in product((False, True), repeat=7):
        named = [(at, end, "ab"[(arm == "b") != swapped[task]]) for task, at, end, arm in runs]
        scores.append(abs(score_of(named)))
    arms = [ends_of(*[run[:3] for run in runs if run[3] == name]) for name in "ab"]
    result = compare_survival(*arms)
    assert result.p_value == approx(np.mean(np.array(scores) >= scores[0] - 1e-9)) and result.units == 7


def test_length_of_completed_runs_does_not_matter() -> None:
    loops = [(task, 4, "loop") for task in range(20)]
    long, short = ([*loops, *[(task, at, "completed") for task in range(20)]] for at in (9, 2))
    result = compare_survival(ends_of(*long), ends_of(*short))
    assert result.p_value == 1 and result.a.steps[-1].share == result.b.steps[-1].share == 0.5
    assert (result.a.runs, result.a.events, result.a.completed) == (40, 20, 20)


def test_repeated_runs_are_not_independent_evidence() -> None:
    early, late = [(task, 2, "loop") for task in range(6)], [(task, 8, "loop") for task in range(6)]
    once, often = compare_survival(ends_of(*early), ends_of(*late)), compare_survival(ends_of(*early * 9), ends_of(*late * 9))
    assert once.p_value == often.p_value == approx(2 / 2**6) and once.statistic == approx(3) and often.statistic == approx(27)
    assert once.a.steps[0][2:] == often.a.steps[0][2:]


def test_equal_arms_rarely_differ() -> None:
    rng, alarms = np.random.default_rng(29), 0
    for _ in range(80):
        level = rng.random(12)
        arms = [
            ends_of(*[(t, int(rng.integers(1, 9)), "loop" if rng.random() < level[t] else "completed") for t in range(12)] * 3)
            for _ in "ab"
        ]
        p_value = compare_survival(*arms).p_value
        alarms += p_value is not None and p_value < 0.05
    assert alarms <= 11  # the bound of 99.9 per cent for a share of .05


def test_gray_test_needs_a_loop_six_tasks_and_pairs(subtests: pytest.Subtests) -> None:
    six, other = [(task, 3, "loop") for task in range(6)], [(task, 3, "completed") for task in range(6)]
    cases = {
        "no loop": (other, other, (None, None, 6, 0)),
        "five tasks": (six[:5], other[:5], (2.5, None, 5, 0)),
        "one task in one arm": (six, other[:5], (2.5, None, 5, 1)),
        "no runs": ([], six, (None, None, 0, 6)),
    }
    for name, (a, b, expected) in cases.items():
        with subtests.test(name):
            assert compare_survival(ends_of(*a), ends_of(*b))[2:] == expected


def test_incidence_interval_of_under_six_tasks_is_zero_to_one() -> None:
    (step,) = compare_survival(ends_of((1, 2, "loop"), (2, 3, "completed")), []).a.steps
    assert step == (2, 2, 0.5, 0.0, 1.0)
