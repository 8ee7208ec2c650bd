"""Logs replaced, cut or written by others during their run: the run stops and reports it."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from marked_logs import marked

from agentnb import Agent, Run, RunOptions, Store, ToolCall
from agentnb.core.log.events import SCHEMA, Delta, Event, QuestionAsked, RunFinished, RunStarted
from agentnb.core.messages import user
from agentnb.errors import StoreError
from agentnb.models.scripted import ScriptedModel
from agentnb.policies.gates import Ask
from agentnb.store import nested_file
from agentnb.tools.tool import ToolContext


def replaced_by_a_copy(log: Path) -> None:
    """As file synchronization and git do."""
    copy = log.with_suffix(".copy")
    shutil.copy(log, copy)
    copy.replace(log)


def replaced_by_a_link(log: Path) -> None:
    kept = log.with_suffix(".kept")
    shutil.copy(log, kept)
    log.unlink()
    log.symlink_to(kept)


def replaced_and_kept(log: Path) -> None:
    """The first file still exists under another name."""
    log.rename(log.with_suffix(".first"))
    shutil.copy(log.with_suffix(".first"), log)


def emptied(log: Path) -> None:
    log.write_bytes(b"")


def cut_off(log: Path) -> None:
    os.truncate(log, log.stat().st_size // 2)


def written_into(log: Path) -> None:
    with log.open("ab") as file:
        file.write(b"mine\n")


REPLACED: dict[Callable[[Path], None], str] = {
    replaced_by_a_copy: "another file was put in its place",
    replaced_by_a_link: "another file was put in its place",
    replaced_and_kept: "another file was put in its place",
    emptied: "something else has changed it",
    cut_off: "something else has changed it",
    written_into: "something else has changed it",
}
pytestmark = pytest.mark.skipif(os.name == "nt", reason="Windows lets nobody replace a file that is open")


def meddled(folder: Path, change: Callable[[Path], None], in_round: int, *, nested: bool = False) -> tuple[Run, Path]:
    """Return a failed run whose log was changed like this in its round, and the log; of a nested run if ``nested``."""
    store = Store(folder)
    model = ScriptedModel([ToolCall("meddle", {"n": 1}), ToolCall("meddle", {"n": 2}), "Done."])
    found: list[StoreError] = []

    def meddle(n: int, context: ToolContext) -> str:
        """Meddles."""
        if n == in_round:
            change(store.path(context.run_id))
        return "done"

    agent = Agent(model, [meddle], guidance="off", todos=False)

    async def delegate() -> str:
        """Delegates."""
        try:
            await agent.run("go", store=store)
        except StoreError as error:
            found.append(error)
        return "done"

    if nested:
        outer = Agent(ScriptedModel([ToolCall("delegate"), "Done."]), [delegate], guidance="off", todos=False)
        assert outer.run_sync("go", store=store).status == "completed"
    else:
        asyncio.run(delegate())
    (error,) = found
    assert isinstance(error.run, Run) and "could not be written" in error.what
    assert "save_trace(run" in error.hint and "disk" not in error.hint
    assert len(model.requests) == in_round
    return error.run, store.path(error.run.id)


def test_replaced_or_changed_log_stops_its_run(subtests: pytest.Subtests, tmp_path: Path) -> None:
    for change, said in REPLACED.items():
        for in_round in (1, 2):
            for nested in (False, True):
                with subtests.test(change.__name__, in_round=in_round, nested=nested):
                    folder = tmp_path / f"{change.__name__} {in_round} {nested}"
                    run, _ = meddled(folder, change, in_round, nested=nested)
                    assert run.status == "failed" and run.error is not None and said in run.error.message
                    assert len(run.rounds) == in_round and Run.from_events(run.events) == run


def test_replacement_of_a_log_is_left_unchanged(tmp_path: Path) -> None:
    run, log = meddled(tmp_path / "a", replaced_by_a_copy, 1)
    assert log.read_bytes() == marked(run.events[: log.read_bytes().count(b"\n")])
    _, log = meddled(tmp_path / "b", emptied, 1)
    assert b"\0" not in log.read_bytes()


def test_moved_log_is_complete_at_its_new_location(tmp_path: Path) -> None:
    store = Store(tmp_path / "runs")

    def move() -> str:
        """Moves."""
        store.folder.rename(tmp_path / "moved")
        return "moved"

    run = Agent(ScriptedModel([ToolCall("move"), "Done."]), [move], guidance="off", todos=False).run_sync("go", store=store)
    assert run.status == "completed" and Store(tmp_path / "moved").load(run.id) == run


def test_nested_log_reopened_per_write_is_checked_too(
    subtests: pytest.Subtests, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(nested_file, "MAX_OPEN", 1)
    for change in (emptied, cut_off, written_into):
        with subtests.test(change.__name__):
            store = Store(tmp_path / change.__name__)
            names = ("top", "a", "b")
            top, first, second = logs = [asyncio.run(store.open(name, nested=name != "top")) for name in names]
            for name, log in zip(names, logs, strict=True):
                log.append(started(name, None if log is top else "top"))
            change(store.path("a"))
            second.append(ended("b"))
            with pytest.raises(OSError, match="something else has changed it"):
                first.append(ended("a"))
            for log in logs:
                log.close()


def started(run_id: str, parent_id: str | None) -> RunStarted:
    return RunStarted(seq=0, at=None, run_id=run_id, parent_id=parent_id, schema=SCHEMA, prompt=user("x"), model="m")


def ended(run_id: str) -> RunFinished:
    return RunFinished(seq=1, at=None, run_id=run_id, status="completed", stop_reason="natural", seconds=0.1)


def test_suspending_a_run_whose_log_was_emptied_fails(tmp_path: Path) -> None:
    store = Store(tmp_path)

    def watch(item: Event | Delta) -> None:
        if isinstance(item, QuestionAsked):
            emptied(store.path(item.run_id))

    def work() -> str:
        """Works."""
        return "done"

    agent = Agent(ScriptedModel([ToolCall("work")]), [work], gates=[lambda call, run: Ask("Sure?")], todos=False)
    options = RunOptions(store=store, suspend=True, can_ask=False, watch=watch)
    with pytest.raises(StoreError, match="something else has changed it"):
        agent.start("go", options).result(30)


FLAGS = """
import msgspec, os, sys
os.O_BINARY = os.O_SYNC  # as Windows has a flag against the translation of line ends
from pathlib import Path
opened = os.open
without = []
def watched(path, flags, *more, **named):
    if str(path).endswith(".jsonl") and not flags & os.O_SYNC:
        without.append(path)
    return opened(path, flags, *more, **named)
os.open = watched
from agentnb.store import nested_file
from agentnb.store.run_file import RunFile
from agentnb.store.store import Store
from agentnb import Agent
from agentnb.models import ScriptedModel
nested_file.MAX_OPEN = 1
store = Store(sys.argv[1])
run = Agent(ScriptedModel(["Done."])).run_sync("go", store=store)
assert store.load(run.id) == run
file, _ = RunFile.reopen(store.path(run.id))
logs = [nested_file.NestedFile(str(store.path(name))) for name in ("a", "b")]
for log in logs:
    log.append(msgspec.structs.replace(run.events[0], parent_id=run.id))
for log in (*logs, file):
    log.close()
print("without:", without)
"""


def test_logs_are_opened_without_newline_translation(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", FLAGS, str(tmp_path)], capture_output=True, text=True, check=False, timeout=120
    )
    assert done.stdout == "without: []\n", done.stderr
