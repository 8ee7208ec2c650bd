"""Workers are forked from a process that has imported what they need, and what never differs is computed once."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from multiprocessing import forkserver, get_all_start_methods, get_context

import pytest

from agentnb.experiments import design
from agentnb.experiments.planning import plan_problems
from agentnb.experiments.running import processes

PRELOADED = [
    "agentnb.experiments.running.cell_worker",
    "agentnb.detect",
    "distributed",
    "markdown_it",
    "pandas",
    "small_experiments",
]


known_effect = cache(design.plan_minimum_effect_of_passes)
known_run = cache(plan_problems.load_trace)


@pytest.fixture(scope="module", autouse=True)
def computed_once() -> Iterator[None]:
    """Simulate a minimum effect once for the same numbers of tasks, and read the run on which checks are tried once."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(design, "plan_minimum_effect_of_passes", known_effect)
        patch.setattr(plan_problems, "load_trace", known_run)
        yield


@pytest.fixture(scope="session")
def start_method() -> str:
    """The start method of worker processes: ``forkserver`` on systems that can fork."""
    if "forkserver" not in get_all_start_methods():
        return "spawn"
    get_context("forkserver").set_forkserver_preload(PRELOADED)
    forkserver.ensure_running()
    return "forkserver"


@pytest.fixture
def quick_workers(start_method: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Start the worker processes of experiments by that method by day, and with loky at night."""
    from property_settings import AT_NIGHT  # known once the tests are collected

    if not AT_NIGHT:
        monkeypatch.setattr(processes, "_context", lambda: get_context(start_method))
