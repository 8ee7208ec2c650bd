"""The acceptance test of candidates: seldom wrong over all looks, and no worse on kept tasks."""

from __future__ import annotations

from random import Random

from binomial_bounds import at_most
from made_results import CALLED, row
from property_settings import size

from agentnb.experiments.results.comparison import Comparison
from agentnb.experiments.search.acceptance import find_regressions, look_at

CANDIDATES, OTHERS = size(60, nightly=4_000), size(25, nightly=50)
FOLDS, TASKS = 6, 8
"""Looks at a candidate, and tasks added by each: at this number an undivided level errs three times as often."""


def is_accepted(chance: Random, ahead: float) -> bool:
    """Draw a candidate this many task deviations ahead of the best, and look at both fold by fold."""
    arms = [
        [row(name, f"t{n}", chance.gauss(mean, 0.7)) for n in range(FOLDS * TASKS)] for name, mean in (("a", ahead), ("b", 0))
    ]
    for number in range(1, FOLDS + 1):
        seen = [arm[: number * TASKS] for arm in arms]
        look = look_at(Comparison("a", "b", CALLED, *seen), FOLDS, is_last=number == FOLDS)
        if look.accepted is not None:
            return look.accepted
    raise AssertionError("the last look decides")


def test_equal_candidates_are_rarely_accepted_and_better_ones_usually() -> None:
    chance = Random(5)
    wrong = sum(is_accepted(chance, 0.0) for _ in range(CANDIDATES))
    assert wrong <= at_most(0.05, CANDIDATES), f"{wrong} of {CANDIDATES} candidates that are no better"
    worse = sum(is_accepted(chance, -0.5) for _ in range(OTHERS))
    right = sum(is_accepted(chance, 1.0) for _ in range(OTHERS))
    assert worse == 0 and right > 0.8 * OTHERS, (worse, right)


def test_too_few_tasks_postpone_the_decision_to_the_next_fold() -> None:
    arms = [[row(name, f"t{n}", name == "a") for n in range(5)] for name in "ab"]
    comparison = Comparison("a", "b", CALLED, *arms)
    assert look_at(comparison, 3, is_last=False).accepted is None
    assert look_at(comparison, 3, is_last=True).accepted is False


def test_candidate_must_not_worsen_the_kept_tasks() -> None:
    best = [
        row("b", task, value, repeat)
        for task, values in {"t0": [1, 1], "t1": [0, 0], "t2": [1, 0]}.items()
        for repeat, value in enumerate(values)
    ]
    for values, worse in (
        ({"t0": [1, 1], "t1": [0, 0], "t2": [0, 1]}, []),
        ({"t0": [1, 0], "t1": [1, 1], "t2": [1, 1]}, ["t0"]),
        ({"t0": [1, 1], "t1": [0, 0], "t2": [0, 0]}, ["t2"]),
        ({"t0": [1, None], "t1": [0, 0], "t2": [1, 1]}, ["t0"]),
    ):
        new = [row("a", task, value, repeat) for task, ones in values.items() for repeat, value in enumerate(ones)]
        assert find_regressions(new, best, CALLED, ["t0", "t1", "t2"]) == worse
        assert find_regressions(new, best, CALLED, ["t1"]) == []
