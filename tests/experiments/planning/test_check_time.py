"""The time limit of checks: a late outcome is unknown, and its caller can leave."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest
from small_experiments import small
from waiting import wait_until

from agentnb import Experiment, load_trace
from agentnb.detect.run import Run
from agentnb.experiments.planning.check_time import TooSlow, run_check_here
from agentnb.experiments.planning.experiment_checks import read_checks
from agentnb.experiments.running.live_experiment import LiveExperiment

LONG = 60


class Stuck:
    """Return at once for the example run, and for others when released."""

    __name__ = "stuck"

    def __init__(self, *, in_python: bool) -> None:
        self.go, self.begun, self.ended = threading.Event(), threading.Event(), threading.Event()
        self._in_python = in_python

    def __call__(self, run: Run, row: Any = None) -> bool:
        if not run.tags:
            return True
        self.begun.set()
        try:
            self._spin()
            self.go.wait(LONG)  # a library call that cannot be interrupted
        finally:
            self.ended.set()
        return True

    def _spin(self) -> None:
        # In a frame of its own: Python 3.13.0 skips the handlers of the frame that such an interrupt hits.
        while self._in_python and not self.go.is_set():
            pass


def experiment(check: Any, **settings: Any) -> Experiment:
    return small(1, {"off": "off"}, checks=[check], **settings)


def test_endless_check_yields_unknown_and_other_checks_still_count(subtests: pytest.Subtests) -> None:
    for in_python in (True, False):
        with subtests.test(in_python=in_python):
            check = Stuck(in_python=in_python)
            results = experiment(check, check_seconds=0.05).run_sync(show=False)
            (row,) = results.rows
            assert (row.values["stuck"], row.values["was_called"] is None) == (None, False)
            assert row.check_errors == {"stuck": "TooSlow: it took longer than 0.05 s"}
            assert any("values are unknown in 1 run" in note and "longer than 0.05 s" in note for note in results.notes)
            assert not in_python or check.ended.wait(LONG)  # it was interrupted, not abandoned
            check.go.set()


def test_stop_ends_a_check_and_the_next_run_repeats_it(tmp_path: Path) -> None:
    check = Stuck(in_python=True)
    live: LiveExperiment = experiment(check, folder=tmp_path / "exp").start(show=False)
    assert check.begun.wait(LONG)
    live.stop()
    assert live.result(LONG).missing == 1 and check.ended.wait(LONG)
    check.go.set()
    results = experiment(check, folder=tmp_path / "exp").run_sync(show=False)
    assert (results.missing, results.rows[0].values["stuck"], results.rows[0].redone) == (0, True, "")
    assert len([*(tmp_path / "exp").glob("*.jsonl")]) == 1


def test_endless_check_does_not_block_other_cells(tmp_path: Path) -> None:
    """An endless check does not block the other cells."""
    check = Stuck(in_python=False)

    def some(run: Run, row: Any) -> bool:
        return check(run) if row["id"] == "t0" else True

    live = small(4, {"off": "off"}, checks=[some]).start(show=False)
    wait_until(lambda: live.progress.done == 3)
    check.go.set()
    assert live.result(LONG).missing == 0


def test_outcome_is_the_value_error_or_timeout() -> None:
    def fails(run: Run) -> bool:
        raise TimeoutError("of its own")

    def number(run: Run) -> float:
        return 0.5

    left = threading.Event()

    def endless(run: Run) -> bool:
        try:
            while True:
                pass
        finally:
            left.set()

    found, _ = read_checks([fails, number, endless], number, problems := [])
    assert not problems
    run = load_trace("healthy")
    outcomes = {check.name: run_check_here(check, run, {}, LONG if check.name != "endless" else 0.01) for check in found}
    assert outcomes["number"] == (0.5, None)
    assert type(outcomes["fails"].error) is TimeoutError and type(outcomes["endless"].error) is TooSlow
    assert left.wait(LONG)  # it was interrupted
