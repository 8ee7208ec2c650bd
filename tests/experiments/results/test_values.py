"""Units: the values of two arms that are compared with each other."""

from __future__ import annotations

from typing import Any

import pytest

from agentnb.experiments.results.rows import NOT_RUN, Row
from agentnb.experiments.results.values import Unit, cell_values, count_states, pair_cells, stack_units, task_means, units_of


def rows(arm: str, *cells: tuple[str, str, int, Any], seed: int | None = 7) -> list[Row]:
    """Build rows from task, model, repeat and value; a text is the status of a run without a value."""
    return [
        Row(
            f"{arm}{task}{model}{repeat}", task, arm, model, repeat, seed, f"{arm}{task}{model}{repeat}",
            value if isinstance(value, str) else "completed", values={} if isinstance(value, str) else {"ok": value},
        )
        for task, model, repeat, value in cells
    ]  # fmt: skip


def units(a: list[Row], b: list[Row]) -> list[Unit]:
    return units_of(cell_values(a, "ok"), cell_values(b, "ok"))


def test_models_are_paired_within_their_task() -> None:
    a = rows("a", ("t", "easy", 0, True), ("t", "hard", 0, None))
    b = rows("b", ("t", "easy", 0, True), ("t", "hard", 0, False))
    found = units(a, b)
    assert [(unit.model, unit.is_paired) for unit in found] == [("easy", True), ("hard", False)]
    assert stack_units(found) == ([[1.0], []], [[1.0], []], ["t", "t"]) and task_means(found) == ([1.0], [1.0])


def test_repeats_pair_by_shared_seed_or_are_averaged() -> None:
    values_a, values_b = [("t", "m", 0, 1.0), ("t", "m", 1, 3.0)], [("t", "m", 0, 0.0), ("t", "m", 1, None)]
    shared = units(rows("a", *values_a), rows("b", *values_b))
    assert [(unit.repeat, unit.a, unit.b) for unit in shared] == [(0, [1.0], [0.0]), (1, [3.0], [])]
    assert stack_units(shared) == ([[1.0]], [[0.0]], ["t"])
    for seeds in ((1, 2), (None, None)):
        own = units(rows("a", *values_a, seed=seeds[0]), rows("b", *values_b, seed=seeds[1]))
        assert [(unit.repeat, unit.a, unit.b) for unit in own] == [(None, [1.0, 3.0], [0.0])]
        assert stack_units(own) == ([[1.0, 3.0]], [[0.0]], ["t"]) and task_means(own) == ([2.0], [0.0])


def test_each_model_counts_once_per_task_whatever_its_repeats() -> None:
    a = rows("a", ("t", "m", 0, 1.0), ("t", "m", 1, 1.0), ("t", "n", 0, 0.0))
    b = rows("b", ("t", "m", 0, 0.0), ("t", "m", 1, 0.0), ("t", "n", 0, 0.0))
    assert stack_units(units(a, b)) == ([[1.0, 1.0], [0.0]], [[0.0, 0.0], [0.0]], ["t", "t"])
    assert task_means(units(a, b)) == ([0.5], [0.0])


def test_variants_with_different_models_are_paired_by_task() -> None:
    found = units(rows("a", ("t", "one", 0, 1.0)), rows("b", ("t", "other", 0, 0.0)))
    assert [(unit.a, unit.b) for unit in found] == [([1.0], [0.0])]


def test_run_pairs_share_the_model_and_repeat() -> None:
    a = rows("a", ("t", "m", 0, True), ("t", "n", 1, True), ("u", "m", 0, True))
    b = rows("b", ("t", "m", 0, True), ("t", "m", 1, True), ("v", "m", 0, True))
    found = pair_cells(cell_values(a, "ok"), cell_values(b, "ok"))
    assert [(one.place, other.place) for one, other in found] == [(("t", "m", 0), ("t", "m", 0))]


def test_cell_states_are_counted(subtests: pytest.Subtests) -> None:
    cells = {"scored": True, "unknown": None, "failed": "failed", "not run": NOT_RUN}
    for state, value in cells.items():
        with subtests.test(state):
            found = cell_values(rows("a", ("t", "m", 0, value)), "ok")
            assert {name: count for name, count in count_states(found).items() if count} == {state: 1}
            assert bool(found[0].reason) == (state != "scored")
