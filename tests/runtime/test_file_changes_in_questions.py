"""Questions about file tools: they show the change, watch the file, and omit files that may hold keys."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from asserted_sentences import Snapshot
from run_checks import codes, results
from waiting import PATIENCE, wait_until

from agentnb import Agent, Run, ToolCall
from agentnb.core.log.wire import encode
from agentnb.core.run.rounds import DENIED
from agentnb.models import ScriptedModel
from agentnb.runtime.calls.approval import NO_CHANGE, file_change, file_digest
from agentnb.runtime.host.live_run import LiveRun
from agentnb.tools.builtin.files.files_group import Files

TOOLS = {tool.spec.name: tool for tool in Files().tools}
EDIT = ToolCall("edit_file", {"path": "a.txt", "old": "two", "new": "2"})
WRITE = ToolCall("write_file", {"path": "a.txt", "content": "one\n2\n"})
DIFF = "--- a.txt\n+++ a.txt\n@@ -1,2 +1,2 @@\n one\n-two\n+2\n"


@pytest.fixture(autouse=True)
def no_mode(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.delenv("AGENT_MODE", raising=False)
    yield


def started(folder: Path, *calls: ToolCall, **settings: Any) -> LiveRun:
    model = ScriptedModel([*[[call] for call in calls], "Done."])
    return Agent(model, tools=list(TOOLS.values()), todos=False, work_dir=folder, **settings).start("go")


def answered(live: LiveRun, *answers: Any) -> Run:
    for place, answer in enumerate(answers):
        wait_until(lambda place=place: len(live.run.questions) > place or live.done)
        live.answer(answer)
    return live.result(PATIENCE)


@pytest.mark.req("R2.18")
def test_question_shows_changes_to_written_and_edited_files(subtests: pytest.Subtests, tmp_path: Path) -> None:
    file = tmp_path / "a.txt"
    for call in (WRITE, EDIT):
        with subtests.test(call.name):
            file.write_text("one\ntwo\n")
            run = answered(started(tmp_path, call), "approve")
            (asked,) = run.questions
            assert asked.question.about is not None and asked.question.about.diff == DIFF
            assert asked.question.message == f"May the tool '{call.name}' run? It changes a file."
            assert file.read_text() == "one\n2\n"


def test_edit_asks_again_after_the_file_changed(tmp_path: Path) -> None:
    file = tmp_path / "a.txt"
    file.write_text("one\ntwo\n")
    live = started(tmp_path, EDIT)
    wait_until(lambda: bool(live.run.waiting))
    file.write_text("zero\ntwo\n")
    run = answered(live, "approve", "deny")
    again = run.questions[1].question
    assert again.about is not None and again.about.diff == DIFF.replace("one", "zero")
    assert codes(run) == [DENIED] and file.read_text() == "zero\ntwo\n"


def test_question_about_a_failing_call_shows_no_change(subtests: pytest.Subtests, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("two two\n")
    (tmp_path / "a.bin").write_bytes(b"two\xff")
    for path in ("a.txt", "a.bin", "nothing.txt"):
        with subtests.test(path):
            change = file_change(TOOLS["edit_file"], {"path": path, "old": "two", "new": "2"}, tmp_path)
            assert change.diff == "" and change.before
    for arguments in (None, "x", {}, {"path": 3}, {"path": "."}, {"path": "../a.txt"}, {"path": "a\0b"}):
        assert file_change(TOOLS["edit_file"], arguments, tmp_path) == NO_CHANGE
        assert file_digest(TOOLS["edit_file"], arguments, tmp_path) == ""


@pytest.mark.req("R2.20")
def test_questions_about_key_files_do_not_show_changes(tmp_path: Path, snapshot: Snapshot) -> None:
    (tmp_path / ".env").write_text("TOKEN=old-and-unknown\n")
    (tmp_path / "plain.txt").symlink_to(".env")
    calls = [ToolCall("read_file", {"path": path}) for path in (".env", "plain.txt")]
    calls.append(ToolCall("write_file", {"path": "plain.txt", "content": "TOKEN=new\n"}))
    calls.append(ToolCall("edit_file", {"path": ".env", "old": "TOKEN", "new": "KEY"}))
    run = answered(started(tmp_path, *calls), "deny", "deny", "deny", "approve")
    assert codes(run) == [DENIED, DENIED, DENIED, None]
    assert [asked.question.message for asked in run.questions] == snapshot
    assert all(asked.question.about is not None and asked.question.about.diff == "" for asked in run.questions)
    assert b"old-and-unknown" not in b"".join(map(encode, run.events))
    assert (tmp_path / ".env").read_text() == "KEY=old-and-unknown\n"


def test_allowed_key_file_is_read(tmp_path: Path) -> None:
    (tmp_path / ".env").write_text("TOKEN=x\n")
    (tmp_path / "a.txt").write_text("a\n")
    run = answered(started(tmp_path, *[ToolCall("read_file", {"path": path}) for path in (".env", "a.txt")]), "approve")
    assert [result.text for result in results(run)] == ["TOKEN=x\n", "a\n"] and len(run.questions) == 1
