"""The data of a comparison: values of cells, pairs of cells from the two arms, and the units that are paired."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import groupby
from statistics import fmean
from typing import NamedTuple, TypeAlias

from agentnb.experiments.results.rows import STATES, Row

ByTask: TypeAlias = list[list[float]]


class CellValue(NamedTuple):
    """The value of one run in an arm, or the reason why it is missing."""

    task: str
    """Name of the task, prefixed with its benchmark if there are several."""
    model: str
    arm: str
    repeat: int
    """Number of the repeat, from 0."""
    seed: int | None
    """The seed of the draws, or None if the run was recorded elsewhere."""
    value: float | None
    state: str
    """One of `STATES`."""
    reason: str
    """Why the value is missing; empty if there is a value."""
    row: Row

    @property
    def place(self) -> tuple[str, str, int]:
        """Key shared by the two runs of a pair."""
        return self.task, self.model, self.repeat


class Unit(NamedTuple):
    """The values of both arms to compare: those of one repeat if the arms share its seed, otherwise those of all repeats."""

    task: str
    model: str
    repeat: int | None
    """Number of the repeat, from 0, or None for all repeats of the task and model."""
    a: list[float]
    b: list[float]

    @property
    def is_paired(self) -> bool:
        """True if both arms have a value."""
        return bool(self.a and self.b)


def cell_values(rows: Iterable[Row], name: str) -> list[CellValue]:
    """Return the cells of these rows, each with its value for a check or measure."""
    return [_cell_value(row, name, row.value(name)) for row in rows]


def _cell_value(row: Row, name: str, value: float | None) -> CellValue:
    state, reason = (STATES[0], "") if value is not None else (row.state(name), row.why_missing(name))
    return CellValue(row.task, row.model, row.variant, row.repeat, row.seed, value, state, reason, row)


def count_states(cells: Iterable[CellValue]) -> dict[str, int]:
    """Return the number of cells in each of `STATES`."""
    counted = Counter(cell.state for cell in cells)
    return {state: counted[state] for state in STATES}


def without_models(a: Iterable[CellValue], b: Iterable[CellValue]) -> bool:
    """True if the arms have no model in common, so the model is part of the arm rather than the unit."""
    return {cell.model for cell in a}.isdisjoint(cell.model for cell in b)


def pair_cells(a: Sequence[CellValue], b: Sequence[CellValue]) -> list[tuple[CellValue, CellValue]]:
    """Return the cells from both arms that have the same task, model and repeat."""
    if without_models(a, b):
        a, b = ([cell._replace(model="") for cell in arm] for arm in (a, b))
    others = {cell.place: cell for cell in b}
    return [(cell, others[cell.place]) for cell in a if cell.place in others]


def units_of(a: Sequence[CellValue], b: Sequence[CellValue]) -> list[Unit]:
    """Return the units of two arms, ordered by task, because resampling depends on the order and runs finish in any order.

    A unit is a task under a model; if both arms used the same seed for a repeat, it is a single repeat.
    """
    no_models = without_models(a, b)
    cells_by_key: dict[tuple[str, str], tuple[list[CellValue], list[CellValue]]] = {}
    for arm, cells in enumerate((a, b)):
        for cell in cells:
            cells_by_key.setdefault((cell.task, "" if no_models else cell.model), ([], []))[arm].append(cell)
    return [unit for key in sorted(cells_by_key) for unit in _units_of_task(*key, *cells_by_key[key])]


def _units_of_task(task: str, model: str, a: list[CellValue], b: list[CellValue]) -> Iterable[Unit]:
    shared = {(cell.repeat, cell.seed) for cell in a if cell.seed is not None}
    has_shared = any((cell.repeat, cell.seed) in shared for cell in b)
    values: dict[int | None, tuple[list[float], list[float]]] = {}
    for arm, cells in enumerate((a, b)):
        for cell in cells:
            of_unit = values.setdefault(cell.repeat if has_shared else None, ([], []))[arm]
            if cell.value is not None:
                of_unit.append(cell.value)
    return [Unit(task, model, repeat, *values[repeat]) for repeat in sorted(values, key=lambda repeat: repeat or 0)]


class Stacked(NamedTuple):
    """The values of paired units as the statistics expect them: grouped by task and model, for each arm."""

    a: ByTask
    b: ByTask
    tasks: list[str]


def stack_units(units: Iterable[Unit]) -> Stacked:
    """Group the values of units by task and model. The lists are empty if no unit is paired."""
    stacked = Stacked([], [], [])
    for (task, _), group in groupby(units, lambda unit: (unit.task, unit.model)):
        paired = [unit for unit in group if unit.is_paired]
        stacked.a.append([value for unit in paired for value in unit.a])
        stacked.b.append([value for unit in paired for value in unit.b])
        stacked.tasks.append(task)
    return stacked


def task_means(units: Iterable[Unit]) -> tuple[list[float], list[float]]:
    """Return the means of the paired tasks in both arms, with equal weight for each model."""
    by_task: dict[str, list[tuple[float, float]]] = {}
    for a, b, task in zip(*stack_units(units), strict=True):
        if a and b:
            by_task.setdefault(task, []).append((fmean(a), fmean(b)))
    means = [[fmean(models) for models in zip(*pairs, strict=True)] for pairs in by_task.values()]
    return [a for a, _ in means], [b for _, b in means]


def impute(cells: Iterable[CellValue], value: float) -> list[CellValue]:
    """Replace each missing value with this value."""
    return [cell if cell.value is not None else cell._replace(value=value) for cell in cells]


def runs_by_unit(cells: Iterable[CellValue]) -> dict[tuple[str, str], list[float]]:
    """Return the known values by task and model."""
    values: dict[tuple[str, str], list[float]] = {}
    for cell in cells:
        if cell.value is not None:
            values.setdefault((cell.task, cell.model), []).append(cell.value)
    return dict(sorted(values.items()))


def differences_of(a: Sequence[CellValue], b: Sequence[CellValue]) -> list[ByTask]:
    """Return the differences between the runs of each pair, by task and model."""
    differences: dict[str, dict[str, list[float]]] = {}
    for cell, partner in pair_cells(a, b):
        if cell.value is not None and partner.value is not None:
            differences.setdefault(cell.task, {}).setdefault(cell.model, []).append(cell.value - partner.value)
    return [[*models.values()] for models in differences.values()]
