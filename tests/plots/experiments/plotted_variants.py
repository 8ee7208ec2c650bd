"""Rows, comparisons and results of experiments with known values, and a small experiment that really runs."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from agentnb import Experiment, Run
from agentnb.experiments.results.comparison import Comparison
from agentnb.experiments.results.experiment_folder import Plan
from agentnb.experiments.results.experiment_results import Results
from agentnb.experiments.results.rows import Row

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from plotted_runs import names, words

__all__ = ["compared", "names", "ran", "results_of", "rows_of", "words"]

PRIMARY = "passed"
PERSONA = "simulated:looping?p=0.5&heed=0.3"


def rows_of(variant: str, values: Mapping[str, Sequence[float | None]], **fields: Any) -> list[Row]:
    """One row per value of each task, in its order."""
    return [
        Row(
            f"{variant}-{task}-{repeat}", task, variant, "m", repeat, 0, f"{variant}-{task}-{repeat}",
            values={PRIMARY: value}, **{"status": "completed", **fields},
        )
        for task, given in values.items()
        for repeat, value in enumerate(given)
    ]  # fmt: skip


def compared(
    a: Mapping[str, Sequence[float | None]], b: Mapping[str, Sequence[float | None]], names: tuple[str, str] = ("new", "old")
) -> Comparison:
    """The comparison of these values by task."""
    return Comparison(*names, PRIMARY, rows_of(names[0], a), rows_of(names[1], b))


def results_of(*arms: Sequence[Row], is_covered: bool = False) -> Results:
    """The results that these rows are."""
    variants = tuple([arm[0].variant for arm in arms])
    rows = [row for arm in arms for row in arm]
    return Results(rows, Plan("x", "x", {}), PRIMARY, variants, missing=int(is_covered), is_covered=is_covered)


def check_line(name: str) -> str:
    """Check a line."""
    return f"{name}: fine"


def quick(run: Run) -> bool:
    """Whether it took at most six rounds."""
    return len(run.rounds) <= 6


@cache
def ran(
    variants: tuple[str, ...] = ("off", "matrix"), folder: Path | None = None, model: str = PERSONA, repeats: int = 1
) -> Results:
    """The results of an experiment with simulated runs."""
    prompt = "Do this.\n\n- Check `check_line('{}')`\n- Check `check_line('{}b')`"
    experiment = Experiment(
        [{"id": f"t-{number:02}", "prompt": prompt.format(number, number)} for number in range(12)],
        {name: {"guidance": name} if name in ("off", "matrix") else {"max_rounds": 4 + len(name) % 4} for name in variants},
        models=[PERSONA],
        repeats=repeats,
        agent={"tools": [check_line]},
        primary=quick,
        folder=folder or False,
    )
    return experiment.run_sync(show=False)
