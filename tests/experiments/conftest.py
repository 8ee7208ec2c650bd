"""Worker processes of experiments, forked from one that has imported what they need: the import is most of their cost."""

from __future__ import annotations

from multiprocessing import forkserver, get_all_start_methods, get_context

import pytest

from agentnb.experiments.running import processes

PRELOADED = [
    "agentnb.experiments.running.cell_worker",
    "agentnb.detect",
    "distributed",
    "markdown_it",
    "pandas",
    "small_experiments",
]


@pytest.fixture(scope="session")
def start_method() -> str:
    """How worker processes start: ``forkserver``, where there is forking."""
    if "forkserver" not in get_all_start_methods():
        return "spawn"
    get_context("forkserver").set_forkserver_preload(PRELOADED)
    forkserver.ensure_running()
    return "forkserver"


@pytest.fixture
def quick_workers(start_method: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Start the worker processes of experiments by that method, in place of loky."""
    monkeypatch.setattr(processes, "_context", lambda: get_context(start_method))
