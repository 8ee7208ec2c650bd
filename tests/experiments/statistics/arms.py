"""Values of two arms, drawn by Hypothesis."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from agentnb.experiments.statistics.paired import Difference, estimate_difference

Values = list[list[float]]


@st.composite
def two_arms(draw: st.DrawFn, min_tasks: int = 6, max_tasks: int = 40) -> tuple[Values, Values]:
    """Draw passes and fails, or numbers of two decimals, of the same tasks in both arms."""
    tasks = draw(st.integers(min_tasks, max_tasks))
    value = draw(st.sampled_from([st.sampled_from([0.0, 1.0]), st.integers(-300, 300).map(lambda number: number / 100)]))
    repeats = draw(st.integers(1, 3))
    arm = st.lists(st.lists(value, min_size=repeats, max_size=repeats), min_size=tasks, max_size=tasks)
    return draw(arm), draw(arm)


def estimated(a: Values, b: Values, **options: Any) -> Difference:
    """Estimate the difference of arms with enough tasks."""
    difference = estimate_difference(a, b, **options)
    assert isinstance(difference, Difference)
    return difference
