"""Experiments of a session: running ones, and the newest run or experiment."""

from __future__ import annotations

import asyncio

import pytest
from small_experiments import small

from agentnb.errors import SettingsError
from agentnb.experiments.running.control import Control
from agentnb.runtime.host.host import use_host
from agentnb.session.session import Session


def test_experiment_started_from_python_is_live_until_it_ends() -> None:
    session = Session()
    seen: list[list[str]] = []
    experiment = small(2)
    with use_host(session.host()):
        experiment.run_sync(
            watch=lambda progress: seen.append([experiment.id for experiment in session.experiments()]), show=False
        )
    assert [experiment.id] in seen and session.experiments() == []


def test_experiment_that_fails_to_start_is_not_live(tmp_path: object) -> None:
    session, experiment = Session(), small(2)
    records = experiment._records

    def fail() -> None:
        raise OSError("the disk is gone")

    records.rows = fail  # type: ignore[method-assign,assignment]
    with use_host(session.host()), pytest.raises(OSError, match="disk"):
        asyncio.run(experiment.run())
    assert session.experiments() == []


def test_newest_experiment_is_the_latest_still_running() -> None:
    session, first, second = Session(), Control("first", 2), Control("second", 2)
    with pytest.raises(SettingsError):
        session.newest()
    for control in (first, second, first):
        session.take_experiment(control)
    assert session.experiments() == [first, second] and session.newest() is second
    second.end(spent=False)
    assert session.newest() is first and session.experiments() == [first]
