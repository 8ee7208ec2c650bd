"""The folder of an experiment: rows survive a death in the middle of a line."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from property_settings import examples

from agentnb import Agent, ToolCall
from agentnb.errors import StoreError
from agentnb.experiments.results.experiment_folder import ExperimentFolder, Memory, Plan, add_note
from agentnb.experiments.results.rows import Row
from agentnb.models.scripted import ScriptedModel
from agentnb.store.check_values import assessments_of_rows


def row(key: str, **fields: Any) -> Row:
    given = {"task": "t", "variant": "a", "model": "m", "repeat": 0, "seed": 1, "run_id": f"r-{key}", **fields}
    return Row(key=key, **given)


@examples(30)
@given(st.integers(0, 400))
def test_rows_before_a_truncated_line_are_read_and_extended(cut: int) -> None:
    folder = ExperimentFolder(Path(f"cut-{cut}").absolute())
    path = folder.path / "experiment.rows"
    with folder.hold_lock():
        if path.exists():
            path.unlink()
        for key in "abc":
            folder.add(row(key), None)
    data = path.read_bytes()
    path.write_bytes(data[: min(cut, len(data))])
    whole = path.read_bytes().count(b"\n")
    assert [*folder.rows()][:whole] == [*"abc"[:whole]]
    with folder.hold_lock():
        folder.add(row("d"), None)
    assert [*folder.rows()][-1] == "d" and len(folder.rows()) >= whole + 1


def test_only_the_last_row_of_a_cell_counts(tmp_path: Path) -> None:
    for records in (ExperimentFolder(tmp_path / "exp"), Memory()):
        with records.hold_lock():
            records.add(row("a", status="failed"), None)
            records.add(row("b"), None)
            records.add(row("a", status="completed", attempt=2), None)
        assert {key: one.status for key, one in records.rows().items()} == {"a": "completed", "b": "failed"}


def test_plan_is_read_completely_or_refused(tmp_path: Path) -> None:
    folder = ExperimentFolder(tmp_path / "exp")
    assert folder.plan() is None
    plan = add_note(Plan("id", "hash", {"primary": "answered"}), "looked", "early")
    folder.keep_plan(plan)
    assert folder.plan() == plan
    path = folder.path / "experiment.plan"
    whole = path.read_bytes()
    for place in range(len(whole)):
        for byte in (0xFF, 0, whole[place] ^ 1, *b'} "'):
            damaged = whole[:place] + bytes([byte]) + whole[place + 1 :]
            path.write_bytes(damaged)
            if damaged != whole:
                with pytest.raises(StoreError, match=r"experiment\.plan is damaged: .*another folder"):
                    folder.plan()
    path.write_bytes(b"")
    with pytest.raises(StoreError, match="is damaged"):
        folder.plan()


def test_plan_of_an_earlier_version_loads_without_a_checksum(tmp_path: Path) -> None:
    folder = ExperimentFolder(tmp_path / "exp")
    plan = Plan("id", "hash", {"primary": "answered"})
    folder.keep_plan(plan)
    path = folder.path / "experiment.plan"
    whole = path.read_bytes().rpartition(b"\n")[0]
    path.write_bytes(whole + b"\n")
    assert folder.plan() == plan
    for place in range(len(whole)):
        path.write_bytes(whole[:place] + b"\xff" + whole[place + 1 :])
        with pytest.raises(StoreError, match=r"experiment\.plan is damaged: "):
            folder.plan()


def test_damaged_rows_are_skipped(tmp_path: Path) -> None:
    folder = ExperimentFolder(tmp_path / "exp")
    for key in "abc":
        folder.add(row(key, primary="ok", status="completed", values={"ok": True}), None)
    path = folder.path / "experiment.rows"
    whole = path.read_bytes()
    for place in (1, whole.index(b"r-a"), whole.index(b"\n") - 2):
        path.write_bytes(whole[:place] + b"\xff" + whole[place + 1 :])
        assert [*folder.rows()] == ["b", "c"] and [*assessments_of_rows(folder.path)][-2:] == ["r-b", "r-c"]


class FullDisk:
    """A disk with space for this many more bytes of rows."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, room: int) -> None:
        self.room, self._write = room, os.write
        monkeypatch.setattr("agentnb.experiments.results.experiment_folder.os.write", self.write)

    def write(self, descriptor: int, data: bytes) -> int:
        if not self.room:
            raise OSError(errno.ENOSPC, "No space left on device")
        written = self._write(descriptor, data[: self.room])
        self.room -= written
        return written


def test_full_disk_is_an_error_that_loses_no_row(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = ExperimentFolder(tmp_path / "exp")
    with folder.hold_lock():
        folder.add(row("a"), None)
        disk = FullDisk(monkeypatch, 20)
        with pytest.raises(StoreError, match=r"experiment\.rows cannot be written: No space left on device\. Free disk space"):
            folder.add(row("b"), None)
    disk.room = 10_000
    with folder.hold_lock():
        folder.add(row("c"), None)
        folder.add(row("b"), None)
    assert [*folder.rows()] == ["a", "c", "b"]


def test_file_that_cannot_be_written_is_named(tmp_path: Path, subtests: pytest.Subtests) -> None:
    plan = Plan("id", "hash", {})
    for name, write in {
        "experiment.plan": lambda folder: folder.keep_plan(plan),
        "experiment.lock": lambda folder: folder.hold_lock().__enter__(),
        "experiment.rows": lambda folder: folder.add(row("a"), None),
        "experiment.covered": lambda folder: folder.cover(False),
    }.items():
        with subtests.test(name):
            folder = ExperimentFolder(tmp_path / name)
            (folder.path / name).mkdir(parents=True)
            with pytest.raises(StoreError, match=f"{name} cannot be written: .*Free disk space"):
                write(folder)
    folder = ExperimentFolder(tmp_path / "other")
    folder.keep_plan(plan)
    (folder.path / "experiment.plan.new").mkdir()
    with pytest.raises(StoreError, match="cannot be written"):
        folder.keep_plan(replace(plan, hash="other"))
    assert folder.plan() == plan


def test_primary_check_determines_the_outcome_of_runs(tmp_path: Path, subtests: pytest.Subtests) -> None:
    cases: dict[str, tuple[dict[str, Any], Any]] = {
        "passed": ({"status": "completed", "values": {"ok": True}}, ("passed", None)),
        "failed": ({"status": "completed", "values": {"ok": False}}, ("failed", None)),
        "limited": ({"status": "limited", "values": {"ok": True}}, ("failed", None)),
        "unknown": ({"status": "completed", "values": {"ok": None}}, None),
        "half a score": ({"status": "completed", "values": {"ok": 0.5}}, ("unknown", 0.5)),
        "a full score": ({"status": "completed", "values": {"ok": 1.0}}, ("passed", 1.0)),
    }
    for name, (fields, expected) in cases.items():
        with subtests.test(name):
            (tmp_path / "experiment.rows").write_bytes(msgspec.json.encode(row("k", primary="ok", **fields)) + b"\n{cut")
            found = assessments_of_rows(tmp_path).get("r-k", ())
            assert [(one.outcome, one.score, one.source) for one in found] == ([(*expected, "check")] if expected else [])


def test_setting_a_log_aside_also_moves_its_nested_logs(tmp_path: Path) -> None:
    async def inner(n: int) -> str:
        """Have another agent look."""
        return (await Agent(ScriptedModel(["seen"]), name="inner").run("look", show=False)).text

    folder = ExperimentFolder(tmp_path / "exp")
    runs = [
        Agent(ScriptedModel([ToolCall("inner", {"n": 1}), "done"]), tools=[inner]).run_sync(
            "go", store=folder.store, show=False
        )
        for _ in range(2)
    ]
    assert folder.store is not None and len(folder.store.ids()) == 4
    folder.put_aside([runs[0].id])
    left = folder.store.ids()
    assert len(left) == 2 and runs[1].id in left and runs[0].id not in left
    assert len([*(tmp_path / "exp" / "cut").iterdir()]) == 2
