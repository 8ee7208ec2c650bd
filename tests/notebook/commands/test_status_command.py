"""``%agent status`` and the experiments of a session."""

from __future__ import annotations

from pathlib import Path

import pytest

from agentnb.experiments.running.control import Control
from agentnb.notebook.commands.status import status_lines
from agentnb.session.session import Session


def test_status_names_every_experiment_of_this_kernel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    session, first, second = Session(), Control("first", 2), Control("second", 2)
    for control in (first, second):
        session.take_experiment(control)
        control.end(spent=False)
    assert status_lines(session)[:2] == [f"Experiment {name}: stopped: 0 of 2 runs, $0" for name in ("second", "first")]
    session.take_experiment(third := Control("third", 2))
    assert [line.split()[1] for line in status_lines(session)[:3]] == ["third:", "second:", "first:"]
    assert session.experiments() == [third]
