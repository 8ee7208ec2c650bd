"""Cells: every combination once, blocked by task and model, in random order."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from property_settings import examples
from small_experiments import CHATTY, check_line, rows

from agentnb import Experiment
from agentnb.experiments.planning.schedule import Schedule


def schedule(tasks: int = 3, variants: Any = ("off", "matrix"), **settings: Any) -> Schedule:
    given = {"agent": {"tools": [check_line]}, "models": [CHATTY, "simulated:disciplined"], "folder": False, **settings}
    (one,) = Experiment(rows(tasks), variants, **given)._schedules
    return one


@examples(20)
@given(st.integers(1, 6), st.integers(1, 3), st.integers(0, 5))
def test_each_combination_appears_once_and_blocks_stay_together(tasks: int, repeats: int, seed: int) -> None:
    one = schedule(tasks, repeats=repeats, seed=seed)
    cells = [*one]
    assert len(cells) == len(one) == tasks * 2 * 2 * repeats == len({cell.key for cell in cells})
    for first, second in zip(cells[::2], cells[1::2], strict=True):
        assert (first.task, first.model, first.repeat, first.seed) == (second.task, second.model, second.repeat, second.seed)
        assert {first.variant, second.variant} == {0, 1}


def test_blocks_and_their_variants_run_in_random_order() -> None:
    cells = [*schedule(12)]
    blocks = [(cell.task, cell.model) for cell in cells[::2]]
    assert blocks != sorted(blocks)
    assert {cell.variant for cell in cells[::2]} == {0, 1}
    assert [*schedule(12)] == cells and [*schedule(12, seed=1)] != cells
    assert any(one > two for one, two in pairwise(blocks))


def test_seed_depends_on_task_and_repeat_unless_independent() -> None:
    shared = {(cell.task, cell.repeat): set[int]() for cell in schedule(3, repeats=2)}
    for cell in schedule(3, repeats=2):
        shared[cell.task, cell.repeat].add(cell.seed)
    assert all(len(seeds) == 1 for seeds in shared.values()) and len(set.union(*shared.values())) == 6
    own = [cell.seed for cell in schedule(3, seeds="independent", models=[CHATTY])]
    assert len({*own}) == 6


def test_cell_key_changes_with_the_source_of_its_tools() -> None:
    def check_line(name: str) -> str:
        """Check a line of the plant."""
        return f"{name} is well"

    keys = {cell.key for cell in schedule()}
    changed = {cell.key for cell in schedule(agent={"tools": [check_line]})}
    assert not keys & changed
    assert {cell.key for cell in schedule(agent={"tools": [globals()["check_line"]]})} == keys


def test_cell_key_changes_with_a_method_used_as_tool() -> None:
    class Plant:
        def check_line(self, name: str) -> str:
            """Check a line of the plant."""
            return f"{name} is well"

    class Other:
        def check_line(self, name: str) -> str:
            """Check a line of the plant."""
            return f"{name} is ill"

    keys = [{cell.key for cell in schedule(agent={"tools": [kind().check_line]})} for kind in (Plant, Other, Plant)]
    assert keys[0] == keys[2] and not keys[0] & keys[1]
