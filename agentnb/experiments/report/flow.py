"""The flow of an experiment: what became of each planned run, by variant."""

from __future__ import annotations

from collections.abc import Mapping

from agentnb.experiments.report.document import Grid
from agentnb.experiments.results.comparison import Comparison
from agentnb.experiments.results.experiment_results import Results
from agentnb.experiments.results.values import cell_values, count_states

LATER = "later"
"""State of a run scheduled after the planned look that the results are from."""
COLUMNS = ("planned", LATER, "not run", "run", "failed", "value missing", "left out", "analysed")


def flow_of(comparison: Comparison, planned: Mapping[str, int]) -> Grid:
    """Tabulate the runs of both variants, from planned to analysed. ``planned``: number of runs by variant.

    A planned run is later (scheduled after the planned look), not run, or run. A run is failed (ended by the provider, a kill
    or a person), without a value, left out (its counterpart has no value), or analysed.
    """
    paired = [unit for unit in comparison.units if unit.is_paired]
    analysed = {comparison.a: sum(len(unit.a) for unit in paired), comparison.b: sum(len(unit.b) for unit in paired)}
    return _grid({name: (states, analysed[name]) for name, states in comparison.counts.items()}, planned)


def flow_alone(results: Results, planned: Mapping[str, int]) -> Grid:
    """Tabulate each variant's runs from planned to analysed. Without a comparison, every run with a value is analysed."""
    cells = {name: [*results.of(name), *[row for row in results.not_run if row.variant == name]] for name in results.variants}
    states = {name: count_states(cell_values(rows, results.primary)) for name, rows in cells.items()}
    return _grid({name: (counts, counts["scored"]) for name, counts in states.items()}, planned)


def _grid(arms: Mapping[str, tuple[Mapping[str, int], int]], planned: Mapping[str, int]) -> Grid:
    """Tabulate the variants by the states of their values and by the number analysed."""
    rows = {name: _counts(states, planned[name], analysed) for name, (states, analysed) in arms.items()}
    columns = [name for name in COLUMNS if name != LATER or any(row[name] for row in rows.values())]
    cells = [[name, *[f"{row[column]:,}" for column in columns]] for name, row in rows.items()]
    return Grid(["variant", *columns], cells, range(1, 1 + len(columns)))


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
