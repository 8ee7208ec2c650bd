"""Holm's adjustment."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from property_settings import examples
from pytest import approx
from statsmodels.stats.multitest import multipletests

from agentnb.experiments.statistics.multiplicity import adjust_holm


@examples(200)
@given(st.lists(st.floats(0, 1), min_size=1, max_size=8))
def test_adjusted_p_values_equal_those_of_statsmodels(p_values: list[float]) -> None:
    assert adjust_holm(p_values) == approx(tuple(multipletests(p_values, method="holm")[1]), abs=1e-9)


def test_missing_value_counts_in_its_family() -> None:
    assert adjust_holm([0.01, None, 0.03]) == (approx(0.03), None, approx(0.06))
    assert adjust_holm([]) == ()
