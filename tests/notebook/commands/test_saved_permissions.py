"""Saved rules in a notebook: answered in a card or in words, shown at the first run, listed and withdrawn."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import pytest
from own_folder import use_own_folder
from waiting import wait_until

from agentnb import Agent, RunOptions, Store, ToolCall, tool
from agentnb.errors import SettingsError
from agentnb.models import ScriptedModel
from agentnb.notebook.card.actions import ACTIONS
from agentnb.notebook.cells.cell_host import tell_saved_rules
from agentnb.notebook.commands.answer import answer_command
from agentnb.notebook.commands.permissions_command import SAVE, permissions_command
from agentnb.runtime.host.live_run import LiveRun
from agentnb.runtime.questions.saved_rules import rules_folder, save, saved_rules
from agentnb.session.session import Session

LONG = 30


@tool(effects=["execute"], command="command")
async def bash(command: str) -> str:
    """Run a command."""
    return "ran"


@pytest.fixture(autouse=True)
def work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    use_own_folder(monkeypatch, tmp_path / "person")
    folder = tmp_path / "work"
    folder.mkdir()
    monkeypatch.chdir(folder)
    return folder


def begin(session: Session) -> LiveRun:
    """Start a run that calls a command."""
    model = ScriptedModel([[ToolCall("bash", {"command": "git log -5"})], "Done."])
    return session.start(Agent(model, tools=[bash], todos=False), "go", RunOptions(can_ask=True))


def in_card(session: Session, live: LiveRun) -> None:
    rule = live.run.waiting[0].about.grants[0].rule  # type: ignore[union-attr]
    ACTIONS["always"](live, {"rule": rule, "reach": "project", "key": live.run.waiting[0].id})


def in_words(session: Session, live: LiveRun) -> None:
    answer_command(session, cast("Any", None), "always in project")


@pytest.mark.parametrize("answer", [in_card, in_words])
def test_saved_rule_is_shown_listed_and_withdrawn(
    answer: Any, tmp_path: Path, work: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    session = Session(Store(tmp_path / "runs"))
    live = begin(session)
    tell_saved_rules(session)
    wait_until(lambda: bool(live.run.waiting))
    answer(session, live)
    assert live.result(LONG).status == "completed"
    capsys.readouterr()
    later = Session(Store(tmp_path / "later"))
    for shown in (f"1 saved rule in force in {work}: such calls run without a question. %agent permissions lists them\n", ""):
        run = begin(later).result(LONG)
        assert not run.questions and [grant.rule for grant in run.grants] == ["bash(git log *)"]
        tell_saved_rules(later)
        assert capsys.readouterr().out == shown, "once in a session"
    assert permissions_command(later, "", {}).endswith(SAVE) and "%agent answer always in project: RULE" in SAVE
    (saved,) = saved_rules().rules.values()
    assert f"  1  bash(git log *), saved on {saved.saved_at:%Y-%m-%d} for runs in {work}" in permissions_command(later, "", {})
    for which in ("1", "bash(git log *)"):
        if which != "1":
            wait = begin(session)
            wait_until(lambda wait=wait: bool(wait.run.waiting))
            answer(session, wait)
            wait.result(LONG)
        assert "Allowed always: nothing yet." in permissions_command(later, f"withdraw {which}", {})
        assert not saved_rules().rules


def test_rule_file_that_is_ignored_is_named(tmp_path: Path, work: Path, capsys: pytest.CaptureFixture[str]) -> None:
    session = Session(Store(tmp_path / "runs"))
    live = begin(session)
    wait_until(lambda: bool(live.run.waiting))
    in_words(session, live)
    live.result(LONG)
    (path,) = rules_folder().iterdir()
    path.chmod(0o666)
    capsys.readouterr()
    later = Session(Store(tmp_path / "later"))
    begin(later).stop()
    tell_saved_rules(later)
    line = (
        f"Ignored, because damaged, writable by others, or about a path that now leads elsewhere: {path.name} in {path.parent}"
    )
    assert capsys.readouterr().out == f"{line}\n"
    assert permissions_command(later, "", {}).splitlines()[-3::2] == ["Allowed always: nothing yet.", line]


def test_withdraw_removes_the_rule_with_the_listed_number(tmp_path: Path, work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    session = Session(Store(tmp_path / "runs"))
    other = tmp_path / "other"
    other.mkdir()

    def keep(folder: Path, rule: str) -> None:
        save(str(folder), "bash", f"bash({rule} *)", "person", "", "")

    def withdraw(which: str) -> list[str]:
        lines = permissions_command(session, f"withdraw {which}", {}).splitlines()
        return [line.partition(", saved on ")[0] for line in lines if line.startswith("Withdrawn: ")]

    for rule in ("git status", "rm build", "make all"):
        keep(work, rule)
    for number in range(6):  # by another kernel
        keep(work, f"make t{number}")
    assert withdraw("2") == ["Withdrawn: bash(rm build *)"]
    keep(other, "make all")
    assert withdraw("bash(make all *)") == ["Withdrawn: bash(make all *)"]
    assert [saved.folder for saved in saved_rules().rules.values() if saved.rule == "bash(make all *)"] == [str(other)]
    keep(work, "make all")
    third = tmp_path / "third"
    third.mkdir()
    monkeypatch.chdir(third)
    with pytest.raises(SettingsError, match="saved for several folders"):
        withdraw("bash(make all *)")
