"""The figures of the pictures of an experiment in docs/plots.md, for `plot_pictures`."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any

from agentnb import Experiment, compare, plots
from agentnb.experiments.results.experiment_results import Results


def check_line(name: str) -> str:
    """Check a line."""
    return f"{name}: fine"


LINES = "Check the lines.\n\n- Check `check_line('{0}')`\n- Check `check_line('{0}b')`\n- Check `check_line('{0}c')`"
VARIANTS = {"off": "off", "matrix": "matrix", "off, 12 rounds": {"guidance": "off", "max_rounds": 12}}


@cache
def compared_variants() -> Results:
    """Results of an experiment with a simulated model that loops: 30 tasks, three variants, three repeats."""
    tasks = [{"id": f"t-{number:02}", "prompt": LINES.format(number)} for number in range(30)]
    models, agent = ["simulated:looping?heed=0.5&price=3/15"], {"tools": [check_line]}
    return Experiment(tasks, VARIANTS, models, 3, primary="no_loops", agent=agent, seeds="independent", folder=False).run_sync(
        show=False
    )


def figures_of_experiments() -> Iterator[tuple[str, Any]]:
    """The figure of each picture of an experiment."""
    results = compared_variants()
    comparisons = compare(results)
    yield "differences", plots.differences(comparisons)
    yield "flips", plots.flips(comparisons[0])
    yield "pass_k", plots.pass_k(comparisons)
    yield "ledger", plots.ledger(results)
    yield "cost_against_success", plots.cost_against_success(results)
