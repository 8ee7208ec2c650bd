"""Drawn worlds with a judge that errs: corrected intervals hold the true difference as often as they say, others do not."""

from __future__ import annotations

from random import Random
from statistics import fmean

import pytest
from binomial_bounds import at_least, at_most
from judged_rows import compared, draw, quality
from property_settings import size
from pytest import approx

from agentnb.experiments.results.comparison import Comparison
from agentnb.experiments.results.corrections import LabelledRun

DRAWS, PLAIN = size(20, nightly=1_500), 20


def holds(one: Comparison, truth: float) -> bool:
    return one.interval is not None and one.interval[0] <= truth <= one.interval[1]


@pytest.mark.slow("comparisons of three drawn worlds, corrected and not")
def test_corrected_intervals_cover_the_truth_where_uncorrected_fail(subtests: pytest.Subtests) -> None:
    worlds = {
        "errs alike": ((0.75, 0.35), ((0.85, 0.75), (0.85, 0.75))),
        "flatters one variant": ((0.5, 0.5), ((0.95, 0.65), (0.7, 0.95))),
        "is strict with one variant": ((0.7, 0.4), ((0.6, 0.95), (0.95, 0.85))),
    }
    for name, (rates, errors) in worlds.items():
        with subtests.test(name):
            rng, held, plain, centre = Random(name), 0, 0, []
            truth = rates[0] - rates[1]
            for number in range(DRAWS):
                rows, labels = draw(rng, 120, 50, rates, errors)
                other = compared(rows, quality(labels))
                plain += number < PLAIN and holds(compared(rows), truth)
                held += holds(other, truth)
                assert (other.p_value < 0.05) == (not holds(other, 0.0))
                centre.append(other.difference)
            assert at_least(0.95, DRAWS) <= held <= at_most(0.985, DRAWS), f"{held} of {DRAWS} hold the true difference"
            assert plain < at_least(0.95, PLAIN), "without the correction they do not"
            assert fmean(centre) == approx(rates[0] - rates[1], abs=0.05)


@pytest.mark.slow("comparisons of a drawn world with labels of other runs")
def test_labels_of_other_runs_provide_sensitivity_and_specificity() -> None:
    rng, held, plain = Random(3), 0, 0
    for number in range(DRAWS):
        rows, _ = draw(rng, 120, 0, (0.75, 0.35), ((0.85, 0.75),) * 2)
        elsewhere = [
            LabelledRun("", n, n % 2 == 0, (rng.random() < 0.85) if n % 2 == 0 else (rng.random() > 0.75)) for n in range(120)
        ]
        plain += number < PLAIN and holds(compared(rows), 0.4)
        held += holds(compared(rows, quality({}, elsewhere)), 0.4)
    assert at_least(0.95, DRAWS) <= held <= at_most(0.985, DRAWS) and plain < at_least(0.95, PLAIN)
