"""``agentnb undo``."""

from __future__ import annotations

from pathlib import Path

import pytest
from kept_files import Desk, writes
from shell_calls import Call


def test_undo_restores_files_by_run_id_or_log(cli: Call, tmp_path: Path, subtests: pytest.Subtests) -> None:
    desk = Desk(tmp_path)
    path = desk.write("a.txt", "old")
    for name, of in {"id": lambda run: run.id[-8:], "log": lambda run: str(desk.store.path(run.id))}.items():
        with subtests.test(name):
            run = desk.run(writes("a.txt", "new"))
            assert path.read_text() == "new"
            done = cli("undo", of(run))
            assert (done.code, done.out) == (0, f"Run {run.id}:\n  Restored: a.txt\n") and path.read_text() == "old"
            again = cli("undo", of(run))
            assert (again.code, again.out) == (0, f"Nothing is left to undo in run {run.id}\n")


def test_unknown_run_is_an_error(cli: Call) -> None:
    done = cli("undo", "nothing")
    assert done.code == 1 and "There is no run 'nothing'" in done.err
