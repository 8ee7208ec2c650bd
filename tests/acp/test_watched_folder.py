"""Watching the working folder: changes made by the agent itself are named, and not undone."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from threading import Event
from types import SimpleNamespace
from typing import Any

import pytest

from agentnb import Agent, Store, ToolCall, tool
from agentnb.acp import watched_folder
from agentnb.core.log.events import TextDelta, ThinkingDelta, Warned
from agentnb.detect.run import Run
from agentnb.display.lists.undo_text import undo_text
from agentnb.models import ScriptedModel
from agentnb.rerun.undo.undoing import undo_run
from agentnb.tools.builtin.notebook import executed_cells
from agentnb.tools.builtin.notebook.kernel import Kernel

Make = Callable[..., Agent]
CHANGED = "Changed while acp:fake ran, but not by agentnb, so not undone: gone.txt, new.txt, old.txt"


@pytest.fixture(autouse=True)
def files(tmp_path: Path) -> None:
    """Files that the agent changes by itself."""
    for name, text in {"old.txt": "older", "touched.txt": "same", "gone.txt": "gone"}.items():
        (tmp_path / name).write_text(text)


def _allow(call: ToolCall, run: object) -> bool:
    return True


def _warnings(run: Run) -> list[str]:
    return [event.message for event in run.events if isinstance(event, Warned)]


def test_change_outside_tool_calls_is_reported_and_kept(fake: Make, tmp_path: Path) -> None:
    store = Store(tmp_path / "runs")
    run = fake().run_sync("alone", store=store)
    assert _warnings(run) == [CHANGED]
    lines = undo_text(undo_run(store, run.id)).splitlines()[1:]
    assert sorted(lines) == [
        f"  Not touched: {name} (no tool call changed it: not undone)" for name in ("gone.txt", "new.txt", "old.txt")
    ]
    assert (tmp_path / "old.txt").read_text() == "other"


def test_change_between_a_stop_and_the_end_is_reported(fake: Make, tmp_path: Path) -> None:
    live = fake().start("parting", watch=lambda item: live.stop() if item == ThinkingDelta("Hm") else None)
    run = live.result(10)
    assert (tmp_path / "new.txt").exists()
    assert (run.status, _warnings(run)) == ("cancelled", [CHANGED.replace("gone.txt, ", "")])


def test_change_is_reported_after_a_stop(fake: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    look = watched_folder.WatchedFolder._look

    def slow_look(watched: watched_folder.WatchedFolder) -> dict[str, watched_folder.FileState]:
        time.sleep(0.4)  # as of a large folder
        return look(watched)

    monkeypatch.setattr(watched_folder.WatchedFolder, "_look", slow_look)
    live = fake().start("alone sleep", watch=lambda item: live.stop() if item == TextDelta("Sleeping") else None)
    run = live.result(10)
    assert (run.status, _warnings(run)) == ("cancelled", [CHANGED])


def _asks(agent: Agent) -> Any:
    """Return a function for an agent that has another one write old.txt."""

    @tool(name="total")
    def ask(numbers: list[int]) -> str:
        """Ask another agent."""
        return agent.run_sync("through old.txt", approve="auto").text

    return ask


def _scripted(tmp_path: Path) -> Agent:
    call = ToolCall("write_file", {"path": "old.txt", "content": "newer"})
    return Agent(ScriptedModel([call, "Done."]), tools=["write_file"], todos=False, work_dir=tmp_path)


@pytest.mark.parametrize(
    ("prompt", "within"),
    [
        ("through old.txt", None),
        ("again old.txt", None),
        ("replaced old.txt", None),
        ("function", "external agent"),
        pytest.param("function", "agentnb's agent", marks=pytest.mark.nightly("by day an external agent in its place")),
    ],
)
def test_agentnb_writes_are_undone_and_not_reported(fake: Make, tmp_path: Path, prompt: str, within: str | None) -> None:
    store = Store(tmp_path / "runs")
    inner = fake() if within == "external agent" else _scripted(tmp_path)
    run = fake(tools=[_asks(inner) if within else "edit_file"]).run_sync(prompt, approve=_allow, store=store)
    assert (tmp_path / "old.txt").read_text() in ("alpha\n", "newer")
    assert _warnings(run) == []
    assert "Restored: old.txt" in undo_text(undo_run(store, run.id))
    assert (tmp_path / "old.txt").read_text() == "older"


def test_agentnb_writes_beside_an_agent_are_not_reported(fake: Make, tmp_path: Path) -> None:
    sleeps = Event()
    beside = fake().start("sleep", watch=lambda item: sleeps.set() if item == TextDelta("Sleeping") else None)
    assert sleeps.wait(10)
    fake().run_sync("through old.txt", approve="auto")
    beside.stop()
    assert (_warnings(beside.result(10)), (tmp_path / "old.txt").read_text()) == ([], "alpha\n")


@pytest.mark.parametrize("text", ["older", None])
def test_change_before_an_agentnb_write_is_reported_and_kept(fake: Make, tmp_path: Path, text: str | None) -> None:
    store, file = Store(tmp_path / "runs"), tmp_path / "through"
    if text is not None:
        file.write_text(text)
    run = fake().run_sync("edit through", approve=_allow, store=store)  # edits the named file, then has it written
    assert _warnings(run) == ["Changed while acp:fake ran, but not by agentnb, so not undone: through"]
    assert "Not touched: through" in undo_text(undo_run(store, run.id))
    assert file.read_text() == "alpha\n"


def test_change_after_an_agentnb_write_is_reported_and_kept(fake: Make, tmp_path: Path) -> None:
    store = Store(tmp_path / "runs")
    run = fake().run_sync("through alone", approve=_allow, store=store)  # writes the named file first, then the others
    assert _warnings(run) == [CHANGED]
    assert "Deleted (created by the run): alone" in undo_text(undo_run(store, run.id))


def test_watching_limit_for_a_large_folder_is_reported(fake: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watched_folder, "MAX_WATCHED_ENTRIES", 3)
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "more.txt").write_text("more")
    assert _warnings(fake().run_sync("alone")) == [
        CHANGED.replace(" new.txt,", ""),
        "The folder is large: changes beyond its first 3 names are not detected",
    ]


def test_many_files_are_counted(fake: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watched_folder, "MAX_NAMED", 1)
    assert _warnings(fake().run_sync("alone")) == [CHANGED.replace(", new.txt, old.txt", " and 2 more")]


@pytest.mark.parametrize("left_out", [".git", "node_modules", ".before-1"])
def test_folders_such_as_git_and_node_modules_are_skipped(tmp_path: Path, left_out: str) -> None:
    (tmp_path / left_out).mkdir()
    (tmp_path / left_out / "file").write_text("")
    seen = watched_folder.WatchedFolder(tmp_path)
    assert [*seen._files] and not any(path.startswith(left_out) for path in seen._files)


@pytest.fixture
def notebook(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Notebook whose kernel this process claims to be."""
    path = tmp_path / "open.ipynb"
    path.write_text(json.dumps({"cells": [{"cell_type": "code", "source": "1 + 1", "outputs": []}]}))
    kernel = Kernel(SimpleNamespace(user_ns={"__session__": str(path)}))
    monkeypatch.setattr(executed_cells, "find_kernel", lambda: kernel)
    return path


@pytest.mark.parametrize("prompt", ["through open.ipynb", "unannounced open.ipynb"])
def test_writing_to_the_open_notebook_is_refused(fake: Make, notebook: Path, prompt: str) -> None:
    before = notebook.read_text()
    run = fake().run_sync(prompt, approve="auto")
    record = run.rounds[0].records[0]
    assert record.result is not None
    assert (record.result.is_error, "it is the open notebook" in record.result.text) == (True, True)
    assert run.text.startswith("Was rejected." if "through" in prompt else "refused ")
    assert notebook.read_text() == before


def test_direct_edit_of_the_open_notebook_is_reported(fake: Make, notebook: Path) -> None:
    run = fake().run_sync("edit open.ipynb")
    assert ["The cells of the open notebook changed" in warning for warning in _warnings(run)] == [True]


def test_saving_outputs_of_the_open_notebook_is_not_an_edit(fake: Make, notebook: Path) -> None:
    def save(item: object) -> None:
        if isinstance(item, TextDelta):
            saved = json.loads(notebook.read_text())
            saved["cells"][0]["outputs"] = [{"output_type": "stream", "text": "2"}]
            notebook.write_text(json.dumps(saved))

    assert _warnings(fake().run_sync("hello", watch=save)) == []
