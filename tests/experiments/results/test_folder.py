"""The folder of an experiment: rows survive a death in the middle of a line."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from property_settings import examples

from agentnb import Agent, ToolCall
from agentnb.errors import StoreError
from agentnb.experiments.results.folder import ExperimentFolder, Memory, Plan, with_note
from agentnb.experiments.results.rows import Row
from agentnb.models.scripted import ScriptedModel
from agentnb.store.check_values import assessments_of_rows


def row(key: str, **fields: Any) -> Row:
    given = {"task": "t", "variant": "a", "model": "m", "repeat": 0, "seed": 1, "run_id": f"r-{key}", **fields}
    return Row(key=key, **given)


@examples(30)
@given(st.integers(0, 400))
def test_rows_before_a_cut_line_are_read_and_more_are_appended(cut: int) -> None:
    folder = ExperimentFolder(Path(f"cut-{cut}").absolute())
    path = folder.path / "experiment.rows"
    with folder.locked():
        if path.exists():
            path.unlink()
        for key in "abc":
            folder.add(row(key), None)
    data = path.read_bytes()
    path.write_bytes(data[: min(cut, len(data))])
    whole = path.read_bytes().count(b"\n")
    assert [*folder.rows()][:whole] == [*"abc"[:whole]]
    with folder.locked():
        folder.add(row("d"), None)
    assert [*folder.rows()][-1] == "d" and len(folder.rows()) >= whole + 1


def test_last_row_of_a_cell_counts(tmp_path: Path) -> None:
    for records in (ExperimentFolder(tmp_path / "exp"), Memory()):
        with records.locked():
            records.add(row("a", status="failed"), None)
            records.add(row("b"), None)
            records.add(row("a", status="completed", attempt=2), None)
        assert {key: one.status for key, one in records.rows().items()} == {"a": "completed", "b": "failed"}


def test_plan_is_whole_or_refused(tmp_path: Path) -> None:
    folder = ExperimentFolder(tmp_path / "exp")
    assert folder.plan() is None
    plan = with_note(Plan("id", "hash", {"primary": "answered"}), "looked", "early")
    folder.keep_plan(plan)
    assert folder.plan() == plan
    (folder.path / "experiment.plan").write_text("{")
    with pytest.raises(StoreError, match="cannot be read"):
        folder.plan()


def test_primary_decides_the_outcome_of_runs(tmp_path: Path, subtests: pytest.Subtests) -> None:
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


def test_log_put_aside_takes_nested_logs_along(tmp_path: Path) -> None:
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
