"""Adjusts p values for several comparisons."""

from __future__ import annotations

from collections.abc import Sequence


def adjust_holm(p_values: Sequence[float | None]) -> tuple[float | None, ...]:
    """Return the p values adjusted by Holm's method, in the same order. Compare them with the level for the entire family.

    A missing p value stays None but counts towards the family, since its comparison was planned as part of it. Source: Holm
    (1979), Scandinavian Journal of Statistics 6.
    """
    adjusted: list[float | None] = [None] * len(p_values)
    largest = 0.0
    ordered = sorted((p_value, position) for position, p_value in enumerate(p_values) if p_value is not None)
    for rank, (p_value, position) in enumerate(ordered):
        largest = max(largest, min((len(p_values) - rank) * p_value, 1.0))
        adjusted[position] = largest
    return tuple(adjusted)
