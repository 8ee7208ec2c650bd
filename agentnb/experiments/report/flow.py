"""The flow of an experiment: what became of each planned run, by variant."""

from __future__ import annotations

from collections.abc import Mapping

from agentnb.experiments.report.document import Grid
from agentnb.experiments.results.comparison import Comparison

LATER = "later"
"""Runs after the planned look that the results are of."""
COLUMNS = ("planned", LATER, "not run", "run", "failed", "value missing", "left out", "analysed")


def flow_of(comparison: Comparison, planned: Mapping[str, int]) -> Grid:
    """Return the runs of both variants from planned to analysed. ``planned``: the runs of each variant.

    Planned runs come later (after a planned look), have not run, or ran; of these some failed (the provider, a kill or a person
    ended them), some have no value, some have no partner with one (left out), and the others are analysed.
    """
    paired = [unit for unit in comparison.units if unit.is_paired]
    analysed = {comparison.a: sum(len(unit.a) for unit in paired), comparison.b: sum(len(unit.b) for unit in paired)}
    rows = [_counts(states, planned[name], analysed[name]) for name, states in comparison.counts.items()]
    columns = [name for name in COLUMNS if name != LATER or any(row[name] for row in rows)]
    told = [[name, *[f"{row[column]:,}" for column in columns]] for name, row in zip(comparison.counts, rows, strict=True)]
    return Grid(["variant", *columns], told, range(1, 1 + len(columns)))


def _counts(states: Mapping[str, int], planned: int, analysed: int) -> dict[str, int]:
    cells = sum(states.values())
    numbers = (
        planned,
        planned - cells,
        states["not run"],
        cells - states["not run"],
        states["failed"],
        states["unknown"],
        states["scored"] - analysed,
        analysed,
    )
    return dict(zip(COLUMNS, numbers, strict=True))
