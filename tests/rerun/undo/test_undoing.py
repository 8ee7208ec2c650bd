"""Undoing runs: restored files, untouched files, and the report."""

from __future__ import annotations

import errno
import os
import re
import signal
import stat
import subprocess
import sys
import threading
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from asserted_sentences import Snapshot
from kept_files import Desk, writes
from msgspec.structs import replace
from own_folder import use_own_folder

from agentnb import Agent, Run, ToolCall, tool
from agentnb.display.lists.undo_text import undo_text
from agentnb.errors import SettingsError, StoreError
from agentnb.models.scripted import ScriptedModel
from agentnb.rerun.undo.undoing import UndoReport, has_file_changes, undo_run
from agentnb.store.before_images.images import folder_of_run, listed_changes, write_record
from agentnb.store.run_file import RunFile
from agentnb.tools.tool import ToolContext

KEY = "sk-test-0123456789abcdef"


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path)


def undo(desk: Desk, run: Run) -> UndoReport:
    return undo_run(desk.store, run.id)


def shown(report: UndoReport) -> str:
    """Return the report without the random part of the names of copies."""
    return re.sub(r"(before-\S+x)[0-9a-f]{8}", r"\1COPY", undo_text(report))


def outcomes(report: UndoReport) -> dict[str, tuple[str, str | None]]:
    return {file.path: (file.action, file.why_not) for file in report.files}


def test_files_return_to_their_original_bytes_and_permissions(desk: Desk, snapshot: Snapshot) -> None:
    before = bytes(range(256)) + b"\r\n"
    desk.write("data/a.bin", before, 0o750)
    run = desk.run(
        writes("data/a.bin", "new"),
        writes("data/a.bin", "newer", "edit_file"),
        writes("new/b.txt", "made"),
        writes("new/b.txt", "made again"),
    )
    (desk.folder / "data" / "a.bin").chmod(0o600)
    report = undo(desk, run)
    assert outcomes(report) == {"new/b.txt": ("delete", None), "data/a.bin": ("restore", None)}
    file = desk.folder / "data" / "a.bin"
    assert file.read_bytes() == before and stat.S_IMODE(file.stat().st_mode) == 0o600
    assert not (desk.folder / "new" / "b.txt").exists() and (desk.folder / "new").is_dir()
    assert shown(report) == snapshot(RUN=run.id)


def test_run_with_only_standard_error_has_no_file_changes(desk: Desk) -> None:
    changing, printing = desk.run(writes("a.txt", "new")), desk.run()
    log, _ = RunFile.reopen(desk.store.path(printing.id))
    log.keep_stderr(b"a warning\n")
    log.close()
    assert [has_file_changes(desk.store, run.id) for run in (changing, printing)] == [True, False]


def test_changes_by_all_file_tools_are_undone(desk: Desk) -> None:
    desk.write("a.py", "one = 1\r\ntwo = 2\r\n", 0o751)
    calls = [
        ToolCall("edit_file", {"path": "a.py", "old": "one = 1", "new": "one = 11"}),
        ToolCall("edit_file", {"path": "a.py", "old": "two = 2", "new": "two = 22"}),
        writes("deep/er/b.py", "three = 3"),
    ]
    agent = Agent(ScriptedModel([*calls, "Done."]), tools=["files"], todos=False, work_dir=desk.folder, approve="auto")
    run = agent.run_sync("Go.", store=desk.store)
    assert (desk.folder / "a.py").read_bytes() == b"one = 11\r\ntwo = 22\r\n"
    assert outcomes(undo(desk, run)) == {"deep/er/b.py": ("delete", None), "a.py": ("restore", None)}
    file = desk.folder / "a.py"
    assert file.read_bytes() == b"one = 1\r\ntwo = 2\r\n" and stat.S_IMODE(file.stat().st_mode) == 0o751


def test_undoing_twice_changes_nothing_the_second_time(desk: Desk, snapshot: Snapshot) -> None:
    desk.write("a.txt", "old")
    run = desk.run(writes("a.txt", "new"))
    undo(desk, run)
    desk.write("a.txt", "new")  # reverted to the run's state by the user
    report = undo(desk, run)
    assert report.files == () and desk.contents() == {"a.txt": "new"}
    assert shown(report) == snapshot("twice", RUN=run.id)
    with_nothing = desk.run()
    assert shown(undo(desk, with_nothing)) == snapshot("no files", RUN=with_nothing.id)


def test_file_changed_since_the_run_is_kept_and_named(desk: Desk, snapshot: Snapshot) -> None:
    for name in ("edited", "gone", "kept"):
        desk.write(name, "old")
    run = desk.run(*(writes(name, "new") for name in ("edited", "gone", "kept", "created")))
    desk.write("edited", "new and mine")
    desk.write("created", "mine")
    (desk.folder / "gone").unlink()
    report = undo(desk, run)
    assert desk.contents() == {"edited": "new and mine", "kept": "old", "created": "mine"}
    assert shown(report) == snapshot(RUN=run.id)
    desk.write("edited", "new")  # reverted by the user
    assert outcomes(undo(desk, run))["edited"] == ("restore", None) and desk.contents()["edited"] == "old"


def test_effects_of_commands_are_kept_and_named(desk: Desk, snapshot: Snapshot) -> None:
    @tool(effects=["write"])
    async def git_commit(message: str) -> str:
        """Commit."""
        return "committed"

    @tool(effects=["write"])
    async def git_branch(action: str) -> str:
        """Branches."""
        return "main"

    async def look() -> str:
        """Look."""
        return "seen"

    desk.write("a.txt", "old")
    run = desk.run(
        writes("a.txt", "new"),
        ToolCall("bash", {"command": "echo > b.txt"}),
        ToolCall("bash", {"command": "echo >> a.txt"}),
        ToolCall("git_commit", {"message": "Done"}),
        ToolCall("git_branch", {"action": "list"}),
        ToolCall("look"),
        tools=[git_commit, git_branch, look],
    )
    report = undo(desk, run)
    assert [call.name for call in report.calls] == ["bash", "bash", "git_commit"]
    assert shown(report) == snapshot(RUN=run.id)
    assert set(desk.contents()) == {"a.txt", "b.txt"}


def test_user_change_between_changes_of_the_run_is_kept(desk: Desk, snapshot: Snapshot) -> None:
    desk.write("a.txt", "old ")
    run = desk.run(writes("a.txt", "new "), ToolCall("bash", {"command": "by bash > a.txt"}), writes("a.txt", "newest"))
    report = undo(desk, run)
    assert desk.contents() == {"a.txt": "new by bash > a.txt"}
    assert shown(report) == snapshot(RUN=run.id)
    assert outcomes(undo(desk, run)) == {"a.txt": ("none", "changed_since")}


def test_nested_runs_are_undone_with_their_parent(desk: Desk) -> None:
    inner = desk.agent(writes("a.txt", "inner"), writes("b.txt", "inner"))

    async def start(context: ToolContext) -> str:
        """Start a run."""
        return str((await context.start_run(inner, "Inner.")).id)

    desk.write("a.txt", "old")
    calls = [writes("a.txt", "outer"), ToolCall("start"), writes("b.txt", "outer")]
    run = desk.run(*calls, tools=[start])
    nested = run.rounds[1].results[0].text
    assert desk.contents() == {"a.txt": "inner", "b.txt": "outer"}
    report = undo_run(desk.store, nested)
    assert outcomes(report) == {"b.txt": ("none", "changed_since"), "a.txt": ("restore", None)}
    assert desk.contents() == {"a.txt": "outer", "b.txt": "outer"}
    assert outcomes(undo(desk, run)) == {"b.txt": ("delete", None), "a.txt": ("restore", None)}
    assert desk.contents() == {"a.txt": "old"}


@pytest.mark.req("R2.38")
def test_file_with_a_key_is_kept_and_named(desk: Desk, monkeypatch: pytest.MonkeyPatch, snapshot: Snapshot) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    desk.write("config.txt", f"key={KEY}")
    run = desk.run(writes("config.txt", "new"))
    report = undo(desk, run)
    assert desk.contents() == {"config.txt": "new"} and KEY not in undo_text(report)
    assert shown(report) == snapshot(RUN=run.id)


def test_undoing_a_live_run_is_refused(desk: Desk) -> None:
    begun, go_on = threading.Event(), threading.Event()

    def wait() -> str:
        """Wait."""
        begun.set()
        go_on.wait(20)
        return "waited"

    desk.write("a.txt", "old")
    live = desk.agent(writes("a.txt", "new"), ToolCall("wait"), tools=[wait]).start("Go.", store=desk.store)
    assert begun.wait(20)
    try:
        with pytest.raises(StoreError, match="is running"):
            undo_run(desk.store, live.run_id)
        assert desk.contents() == {"a.txt": "new"}
    finally:
        go_on.set()
    undo(desk, live.result(20))
    assert desk.contents() == {"a.txt": "old"}


def test_run_cannot_be_resumed_during_its_undo(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    desk.write("a.txt", "old")
    run = desk.run(writes("a.txt", "new"))
    refused: list[str] = []

    def look(*_: Any) -> bytes:
        with pytest.raises(StoreError) as error:
            desk.store.reopen(run.id)
        refused.append(error.value.what)
        return b"old"

    monkeypatch.setattr("agentnb.rerun.undo.undoing.read_image", look)
    undo(desk, run)
    assert len(refused) == 1 and desk.contents() == {"a.txt": "old"}


def test_log_of_another_user_is_refused(desk: Desk, monkeypatch: pytest.MonkeyPatch, snapshot: Snapshot) -> None:
    desk.write("a.txt", "old")
    run = desk.run(writes("a.txt", "new"))
    use_own_folder(monkeypatch, desk.folder / ".agentnb" / "home")
    with pytest.raises(SettingsError) as error:
        undo(desk, run)
    assert str(error.value) == snapshot(RUN=run.id) and desk.contents() == {"a.txt": "new"}


def forged(desk: Desk, run: Run, **lies: Any) -> None:
    """Return a line about a file with a valid mark, as a holder of the secret could write it."""
    (first,) = listed_changes(desk.store.folder, run.id).changes
    write_record(folder_of_run(desk.store.folder, run.id), replace(first, number=7, at=datetime.now(UTC), **lies))


def test_recorded_paths_are_checked_again_like_writes(desk: Desk, subtests: pytest.Subtests) -> None:
    outside = desk.folder.parent / f"{desk.folder.name}-outside"
    outside.mkdir()
    (outside / "a.txt").write_text("new")
    (desk.folder / "link").symlink_to(outside)
    lies = {
        "outside": str(outside / "a.txt"),
        "through dots": f"{desk.folder}/../{outside.name}/a.txt",
        "through a link": str(desk.folder / "link" / "a.txt"),
        "git": str(desk.folder / ".git" / "hooks" / "pre-commit"),
        "the store": str(desk.store.folder / "x.jsonl"),
    }
    for name, path in lies.items():
        with subtests.test(name):
            desk.write("a.txt", "old")
            Path(path).parent.mkdir(parents=True, exist_ok=True)
            Path(path).write_text("new")
            run = desk.run(writes("a.txt", "new"))
            forged(desk, run, path=path)
            assert ("none", "not_allowed") in outcomes(undo(desk, run)).values()
            assert Path(path).read_text() == "new" and (desk.folder / "a.txt").read_text() == "old"


def test_records_of_another_user_are_skipped_and_counted(desk: Desk, snapshot: Snapshot) -> None:
    desk.write("a.txt", "old")
    run = desk.run(writes("a.txt", "new"))
    path = desk.kept(run) / "changes.jsonl"
    path.write_bytes(path.read_bytes() + path.read_bytes().replace(b"a.txt", b"b.txt"))
    desk.write("b.txt", "new")
    report = undo(desk, run)
    assert desk.contents() == {"a.txt": "old", "b.txt": "new"}
    assert shown(report) == snapshot(RUN=run.id)


def test_undo_respects_rules_that_deny_writing(desk: Desk, snapshot: Snapshot) -> None:
    desk.write("data/a.txt", "old")
    desk.write("b.txt", "old")
    rules = {"write_file": "deny"}  # of the tool alone: with brackets it would match edit_file, too
    run = desk.run(writes("data/a.txt", "new", "edit_file"), writes("b.txt", "new", "edit_file"), permissions=rules)
    report = undo(desk, run)
    assert desk.contents() == {"b.txt": "new", "data/a.txt": "new"}
    assert shown(report) == snapshot(RUN=run.id)


def test_failing_disk_leaves_the_file_and_is_reported(desk: Desk, monkeypatch: pytest.MonkeyPatch, snapshot: Snapshot) -> None:
    desk.write("a.txt", "old")
    run = desk.run(writes("a.txt", "new"))

    def full(*_: Any, **__: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("agentnb.rerun.undo.undo_place.os.fchmod", full)
        report = undo(desk, run)
        assert shown(report) == snapshot(RUN=run.id) and desk.contents() == {"a.txt": "new"}
    assert outcomes(undo(desk, run)) == {"a.txt": ("restore", None)}


def test_undo_that_was_not_recorded_is_recognized_from_the_file(desk: Desk) -> None:
    desk.write("a.txt", "old")
    run = desk.run(writes("a.txt", "new"))

    def full(*_: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("agentnb.rerun.undo.undoing.note_undone", full)
        assert outcomes(undo(desk, run)) == {"a.txt": ("restore", None)}
    assert outcomes(undo(desk, run)) == {"a.txt": ("none", None)} and desk.contents() == {"a.txt": "old"}


def test_change_interrupted_by_a_kill_is_recognized_from_the_file(desk: Desk, snapshot: Snapshot) -> None:
    for name in ("a.txt", "b.txt"):
        desk.write(name, "old")
    code = "import sys, kept_files; kept_files.killed_run(sys.argv[1])"
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    killed = subprocess.run([sys.executable, "-c", code, str(desk.folder)], env=env, check=False)
    assert killed.returncode == -signal.SIGKILL
    (run_id,) = desk.store.ids()
    assert len(listed_changes(desk.store.folder, run_id).changes) == 2
    report = undo_run(desk.store, run_id)
    assert shown(report) == snapshot(RUN=run_id)
    assert desk.contents() == {"a.txt": "old", "b.txt": "old"}
