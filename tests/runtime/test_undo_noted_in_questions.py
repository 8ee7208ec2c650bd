"""Questions about file writes note changes that cannot be undone because of a key in the file."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from kept_files import Desk, writes

from agentnb import Run, RunOptions, ToolCall, recover, tool
from agentnb.core.questions import JudgedCall
from agentnb.store.before_images.images import listed_changes
from agentnb.tools.tool import ToolContext

KEY = "sk-test-0123456789abcdef"


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Desk:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    monkeypatch.delenv("AGENT_MODE", raising=False)
    desk = Desk(tmp_path)
    desk.write("plain.txt", "old")
    desk.write("key.txt", f"a\nkey={KEY}\n")
    desk.write("bytes", b"\xff\x00" + KEY.encode())
    desk.write("far.txt", "x" * 2_000_000 + KEY)
    return desk


def noted(run: Run) -> bool:
    about = run.questions[0].question.about
    assert about is not None
    return about.cannot_undo


@pytest.mark.req("R2.38")
def test_question_says_if_the_change_cannot_be_undone(desk: Desk, subtests: pytest.Subtests) -> None:
    @tool(effects=["write"], path="path", content="content")
    async def save(path: str, content: str) -> str:
        """Save."""
        return "saved"

    cases: dict[str, tuple[ToolCall, bool]] = {
        "no key": (writes("plain.txt", "new"), False),
        "a new file": (writes("new.txt", "new"), False),
        "a key in the file": (writes("key.txt", "new"), True),
        "a key in bytes": (writes("bytes", "new"), True),
        "a key behind what a diff shows": (writes("far.txt", "new"), True),
        "an edit": (writes("key.txt", "new", "edit_file"), True),
        "a tool that keeps no files": (ToolCall("save", {"path": "key.txt", "content": "new"}), False),
        "a command": (ToolCall("bash", {"command": f"echo {KEY}"}), False),
        "a file elsewhere": (writes("/etc/hostname", "new"), False),
    }
    for name, (call, expected) in cases.items():
        with subtests.test(name):
            run = desk.run(call, tools=[save], approve=lambda *_: False)
            assert noted(run) is expected
            assert not listed_changes(desk.store.folder, run.id).changes


def test_question_mentions_a_key_in_the_new_content(desk: Desk) -> None:
    async def inner(context: ToolContext) -> str:
        """Call write_file with a key."""
        await context.call("write_file", {"path": "plain.txt", "content": KEY})
        return "done"

    run = desk.run(ToolCall("inner"), tools=[inner], approve=lambda *_: False)
    about = run.questions[0].question.about
    assert noted(run) and about is not None and KEY not in about.arguments


def test_run_without_a_store_adds_no_undo_note(desk: Desk) -> None:
    run = desk.agent(writes("key.txt", "new"), approve=lambda *_: False).run_sync("Go.")
    assert not noted(run)


def test_undo_note_is_updated_when_the_question_is_repeated(desk: Desk) -> None:
    agent = desk.agent(writes("plain.txt", "new"), approve=None)
    run = asyncio.run(agent.run("Go.", RunOptions(suspend=True), store=desk.store))
    assert not noted(run)
    desk.write("plain.txt", f"now with {KEY}")
    answers = {run.waiting[0].id: "approve"}
    run = asyncio.run(recover(run.id, answers=answers, agent=desk.agent(approve=None), store=desk.store, suspend=True))
    (question,) = run.waiting
    assert question.about is not None and question.about.cannot_undo


def test_undo_note_does_not_make_the_question_different() -> None:
    told, other = (JudgedCall("write_file", "{}", "ask", "write", cannot_undo=one) for one in (True, False))
    assert told.is_same(other) and other.is_same(told)
