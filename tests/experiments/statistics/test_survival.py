"""Rounds until an event in two arms."""

from __future__ import annotations

import warnings

import numpy as np
from hypothesis import assume, given
from hypothesis import strategies as st
from property_settings import examples
from pytest import approx
from scipy import stats

from agentnb.experiments.statistics.survival import compare_survival

Times = list[tuple[int, bool]]
times = st.lists(st.tuples(st.integers(1, 12), st.booleans()), min_size=2, max_size=20)


def censored(arm: Times) -> stats.CensoredData:
    return stats.CensoredData.right_censored([time for time, _ in arm], [not has_event for _, has_event in arm])


@examples(100)
@given(times)
def test_curves_and_intervals_equal_those_of_scipy(arm: Times) -> None:
    assume(any(has_event for _, has_event in arm))
    curve = stats.ecdf(censored(arm)).sf
    steps = compare_survival(arm, [(1, False)]).a.steps
    for step in steps:
        assert step.share == approx(float(curve.evaluate(step.round)), abs=1e-9)
    inner = [step for step in steps if 0 < step.share < 1]
    if inner:
        with np.errstate(all="ignore"), warnings.catch_warnings(action="ignore"):
            limits = curve.confidence_interval(method="log-log")
        for step in inner:
            assert step.low == approx(float(limits.low.evaluate(step.round)), abs=1e-9)
            assert step.high == approx(float(limits.high.evaluate(step.round)), abs=1e-9)


@examples(100)
@given(times, times)
def test_p_equals_logrank_of_scipy_where_it_is_defined(a: Times, b: Times) -> None:
    result = compare_survival(a, b)
    with np.errstate(all="ignore"), warnings.catch_warnings(action="ignore"):
        expected = stats.logrank(censored(a), censored(b))
    if result.p_value is None:
        assert np.isnan(expected.pvalue)
    else:
        assert (result.statistic, result.p_value) == approx((expected.statistic, expected.pvalue), abs=1e-9)


def test_earlier_events_of_first_arm_are_positive() -> None:
    early: Times = [(round_number, True) for round_number in (1, 1, 2, 2, 3, 3, 4)]
    late: Times = [(round_number, True) for round_number in (5, 6, 6, 7, 8, 9, 9)]
    result = compare_survival(early, late)
    assert result.statistic is not None and result.statistic > 0 and result.p_value is not None and result.p_value < 0.05
    assert (result.a.median, result.b.median, result.a.runs, result.a.events) == (2, 7, 7, 7)


def test_censored_runs_are_no_events() -> None:
    result = compare_survival([(5, False)] * 6, [(5, False)] * 6)
    assert (result.p_value, result.a.events, result.a.steps, result.a.median) == (None, 0, (), None)
    assert compare_survival([], [(5, True)]).p_value is None


def test_round_that_no_run_survives_defines_no_test() -> None:
    result = compare_survival([(1, False), (2, True)], [(1, False), (2, True)])
    assert (result.statistic, result.p_value, result.a.events) == (None, None, 1)


def test_median_is_the_round_that_half_of_the_runs_survive() -> None:
    assert compare_survival([(1, True), (2, True)], [(3, False)]).a.median == 1
