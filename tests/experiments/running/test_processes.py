"""Cells in worker processes: deaths, keys, notebook functions, shared budget and rate."""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from small_experiments import CHATTY, TwoRounds, check_line, rows, small

from agentnb import Experiment, settings
from agentnb.agent.portable import to_bytes
from agentnb.detect.run import Run
from agentnb.errors import SettingsError, StoreError
from agentnb.experiments.running.processes import kill_process
from agentnb.experiments.running.rate import SharedLimits
from agentnb.models.transport.connections import Endpoint
from agentnb.testing import LoopbackServer

WORKERS = {"executor": "processes", "places": 2}
KEY = "test-0123456789abcdef-of-this-kernel"


def two_rounds(tool: Any) -> dict[str, Any]:
    return {"tools": [tool], "policy": TwoRounds()}


@pytest.mark.slow("starts three worker processes")
def test_dead_worker_is_replaced_and_its_cells_repeated(tmp_path: Path, quick_workers: None) -> None:
    died = tmp_path / "died"

    def check_line(name: str) -> str:
        """Check a line of the plant."""
        if not died.exists():
            died.touch()
            os._exit(9)
        return f"{name} ok"

    results = small(4, folder=tmp_path / "exp", agent=two_rounds(check_line), **WORKERS).run_sync(show=False)
    assert results.missing == 0 and not results.failures
    assert any(row.redone for row in results.rows) and len([*(tmp_path / "exp").glob("*.jsonl")]) == 8


@pytest.mark.nightly("by day kernels abandon endless checks, and workers die")
@pytest.mark.skipif(sys.platform == "win32", reason="Windows bounds no files")
@pytest.mark.slow("starts a worker process")
def test_worker_abandons_endless_checks_and_reports_a_full_disk(tmp_path: Path) -> None:
    def check_line(name: str) -> str:
        """Check a line of the plant."""
        if len([*(tmp_path / "exp").glob("*.jsonl")]) == 2:
            import resource

            resource.setrlimit(resource.RLIMIT_FSIZE, (1, resource.RLIM_INFINITY))
        return f"{name} ok"

    def endless(run: Run) -> bool:
        while run.tags:
            pass
        return True

    given = {"folder": tmp_path / "exp", "models": ["simulated:disciplined"], "primary": "answered", "check_seconds": 0.1}
    experiment = small(
        2, {"a": "off"}, checks=[endless], agent={"tools": [check_line]}, executor="processes", places=1, **given
    )
    with pytest.raises(StoreError, match=r"could not be written: .*File too large"):
        experiment.run_sync(show=False)
    results = experiment.results()
    assert (results.missing, results.failures) == (1, {})
    assert "a check raised an error, so values are unknown in 1 run" in results.notes


@pytest.mark.nightly("a killed experiment continues in every run")
@pytest.mark.slow("starts four worker processes")
def test_cell_whose_workers_die_becomes_a_row_with_the_reason(tmp_path: Path) -> None:
    def check_line(name: str) -> str:
        """Check a line of the plant."""
        if name == "1":
            os._exit(9)
        return f"{name} ok"

    settings = {"models": ["simulated:disciplined"], "agent": {"tools": [check_line]}, "folder": False}
    results = Experiment(rows(2), {"a": "off"}, executor="processes", places=1, **settings).run_sync(show=False)
    assert {row.task: row.stop_reason for row in results.rows if not row.is_completed} == {"t1": "process_died"}


@pytest.mark.slow("starts a worker process")
def test_key_reaches_a_worker_only_through_the_pipe(tmp_path: Path) -> None:
    settings.keep_key("PLANT_KEY", KEY)
    try:
        with LoopbackServer(["Here."] * 2, minimal=True, key=KEY) as server:
            model = f"compatible:m?url={server.url}/v1&key=PLANT_KEY&price=0"
            given = {"models": [model], "folder": tmp_path / "exp", "executor": "processes", "places": 1}
            results = Experiment(rows(1), {"a": "off", "b": "matrix"}, **given).run_sync(show=False)
            assert not results.failures and [request.answered for request in server.requests] == [200, 200]
        for path in (tmp_path / "exp").iterdir():
            assert KEY.encode() not in path.read_bytes(), path
    finally:
        settings.forget_key("PLANT_KEY")


def test_work_containing_a_key_is_not_sent_to_workers() -> None:
    settings.keep_key("PLANT_KEY", KEY)
    hidden = KEY

    def check_line(name: str) -> str:
        """Check a line of the plant."""
        return hidden

    try:
        with pytest.raises(SettingsError, match="The experiment contains a key"):
            small(1, agent=two_rounds(check_line), **WORKERS).run_sync(show=False)
    finally:
        settings.forget_key("PLANT_KEY")


def test_budget_covers_all_workers(quick_workers: None) -> None:
    price = "simulated:disciplined?price=3000/3000"
    given = {"models": [price], "primary": "answered", "agent": {"tools": [check_line]}}
    results = small(10, budget=0.0001, executor="processes", places=2, **given).run_sync(show=False)
    assert 0 < len(results.rows) <= 2 and results.missing


def test_rate_limit_in_one_worker_slows_the_others() -> None:
    workers: list[SharedLimits] = []

    def pass_on(source: int) -> Any:
        return lambda refusal: [one.take(refusal) for place, one in enumerate(workers) if place != source]

    workers += [SharedLimits(2, pass_on(place)) for place in range(2)]
    endpoint = Endpoint("openai", None, None, "OPENAI_API_KEY")
    first, second = (worker.limits.of(endpoint) for worker in workers)
    assert first.allowed == second.allowed == 16  # type: ignore[attr-defined]
    first.was_refused(30.0, 60.0)
    for limiter in (first, second):
        assert limiter.allowed == 8 and limiter.closed_for > 50  # type: ignore[attr-defined]
    second.went_well()
    assert (first.allowed, second.allowed) == (8, 9)  # type: ignore[attr-defined]


def test_consent_of_a_run_is_kept_when_pickled() -> None:
    import pickle

    run = small(1, {"a": "off"}, primary="answered", models=[CHATTY])
    results = run.run_sync(show=False)
    one = results.run(results.rows[0].run_id)
    again = pickle.loads(to_bytes(one, "A run"))
    assert again == one and again.gives_consent == one.gives_consent


@pytest.mark.skipif(os.name != "posix", reason="signals that kill are of POSIX systems")
def test_blocked_process_is_killed() -> None:
    from loky.backend import get_context

    process = get_context("loky").Process(target=time.sleep, args=(600,))
    process.start()
    kill_process(process.pid)
    process.join(60)
    assert process.exitcode == -signal.SIGKILL
