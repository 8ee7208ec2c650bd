"""Two one-sided tests against a margin."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from arms import Values, two_arms
from asserted_sentences import Snapshot
from hypothesis import assume, example, given
from hypothesis import strategies as st
from property_settings import examples
from pytest import approx
from scipy import stats

from agentnb.experiments.statistics.equivalence import Equivalence, assess_equivalence
from agentnb.experiments.statistics.sign_flips import flip_signs
from agentnb.experiments.statistics.task_values import TooFewTasks

PINGOUIN = json.loads(Path(__file__).with_name("pingouin_numbers.json").read_text(encoding="utf-8"))


def assessed(a: Values, b: Values, margin: float) -> Equivalence:
    result = assess_equivalence(a, b, margin)
    assert isinstance(result, Equivalence)
    return result


def test_p_value_equals_pingouin_tost_or_sign_flips(subtests: pytest.Subtests) -> None:
    for number, row in enumerate(PINGOUIN["equivalence"]):
        with subtests.test(f"data {number}"):
            result = assessed([[value] for value in row["a"]], [[value] for value in row["b"]], row["margin"])
            flips = flip_signs(np.subtract(row["a"], row["b"]))
            of_flips = max(flips.p_value(row["margin"]), flips.p_value(-row["margin"])) / 2
            is_within = abs(np.mean(np.subtract(row["a"], row["b"]))) < row["margin"]
            assert result.p_value == approx(max(row["p_value"], of_flips), abs=1e-9) if is_within else result.p_value > 0.5
            assert result.is_equivalent == (row["p_value"] < 0.05)
            of_t, limits = stats.ttest_rel(row["a"], row["b"]).confidence_interval(0.9), flips.interval(0.1)
            expected = min(of_t[0], limits[0]), max(of_t[1], limits[1])
            assert result.interval == approx(expected, abs=1e-9)


@examples(300)
@given(two_arms(), st.integers(1, 300).map(lambda number: number / 100 + 0.001))
def test_arms_are_equivalent_exactly_if_interval_is_within_margin(arms: tuple[Values, Values], margin: float) -> None:
    result = assessed(*arms, margin)
    assume(result.interval is not None)
    assert result.interval is not None and result.p_value is not None
    assert result.is_equivalent == (-margin < result.interval[0] and result.interval[1] < margin) == (result.p_value < 0.05)


@examples(100)
@given(two_arms())
@example(([[0.0]] * 11 + [[1.0]] * 2, [[0.0]] * 9 + [[0.5]] * 2 + [[1.0], [0.0]]))  # with a mean of 0
def test_swapping_the_arms_does_not_change_equivalence(arms: tuple[Values, Values]) -> None:
    one, other = assessed(*arms, 0.5), assessed(*arms[::-1], 0.5)
    assert one.is_equivalent == other.is_equivalent and other.p_value == (one.p_value and approx(one.p_value, abs=1e-9))


def test_identical_differences_cannot_show_equivalence(snapshot: Snapshot) -> None:
    result = assessed([[1.0]] * 40, [[1.0]] * 40, 0.1)
    assert repr(result) == snapshot("identical")
    assert repr(assessed([[1.0], [0.0]] * 20, [[1.0], [0.1]] * 20, 0.2)) == snapshot("equivalent")
    assert repr(assessed([[1.0], [0.0]] * 20, [[1.0], [0.5]] * 20, 0.2)) == snapshot("not shown")
    assert (result.is_equivalent, result.p_value, result.interval) == (False, None, None)
    assert result.max_exception_share == approx(1 - 0.1 ** (1 / 40))


def test_equivalence_needs_at_least_six_tasks() -> None:
    assert assess_equivalence([[1.0]] * 5, [[1.0]] * 5, 0.1) == TooFewTasks((1,) * 5, 0)
