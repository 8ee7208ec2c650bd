"""Displays of a run without a live card, and its answer."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Any

import pytest
from run_builder import Story
from scripted_runs import add, play

from agentnb.agent.agent import Agent
from agentnb.core.compaction_records import Compacted
from agentnb.core.log import events as e
from agentnb.core.messages import Text, ToolCall
from agentnb.display.card.html import run_html
from agentnb.display.card.text import run_text
from agentnb.errors import ModelError, StoreError
from agentnb.models import ScriptedModel
from agentnb.notebook.cells.notebook_runs import Answer
from agentnb.notebook.views import DisplayView, TerminalView
from agentnb.workflow.workflow import Workflow

made = partial(play, tools=[add], prompt="Go.")


def test_answer_is_a_string_and_displays_as_text() -> None:
    from IPython.lib.pretty import pretty

    answer = Answer("It's <3>")
    assert answer == "It's <3>" and pretty(answer) == "It's <3>"
    assert "&lt;3&gt;" in answer._repr_html_()


def test_terminal_prints_lines_as_they_arrive(capsys: pytest.CaptureFixture[str]) -> None:
    model = ScriptedModel([["Adding.", ToolCall("add", {"a": 1})], "It is 2."])
    asyncio.run(Agent(model, tools=[add]).run("Go.", watch=TerminalView()))
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "Adding." and "add(a=1)" in lines[1] and lines[2] == "It is 2."
    assert lines[3].startswith("Done, not checked: 2 rounds")


def test_terminal_prints_the_full_reason_for_a_failure(capsys: pytest.CaptureFixture[str]) -> None:
    reason = f"The provider refused the key (401): {'it said much, ' * 50}and this at the end"
    with pytest.raises(ModelError):
        asyncio.run(Agent(ScriptedModel([RuntimeError(reason)])).run("Go.", watch=TerminalView()))
    state, why, *rest = capsys.readouterr().out.splitlines()
    go_on = "Continue: agent.run(PROMPT, continue_from=run)"
    assert state.startswith("Failed: no reply, ") and why.endswith(f"{reason}. {go_on}") and rest == []
    model = ScriptedModel([ToolCall("add", {"a": 1}), RuntimeError(reason)])
    asyncio.run(Agent(model, tools=[add]).run("Go.", watch=TerminalView()))  # it has work to show, so it does not raise
    *_, state, why = capsys.readouterr().out.splitlines()
    assert state.startswith("Failed: 2 rounds, 1 tool call, ") and why.endswith(f"{reason}. {go_on}")


def test_view_shows_the_run_as_logged(monkeypatch: pytest.MonkeyPatch) -> None:
    shown: list[dict[str, str]] = []

    class Handle:
        def update(self, data: dict[str, str], raw: bool) -> None:
            shown.append(data)

    def display(data: dict[str, str], **_: Any) -> Handle:
        shown.append(data)
        return Handle()

    monkeypatch.setattr("agentnb.notebook.views.display", display)
    run = asyncio.run(
        Agent(ScriptedModel([["Adding.", ToolCall("add", {"a": 1})], "It is 3."]), tools=[add]).run("Go.", watch=DisplayView())
    )
    assert shown[-1]["text/html"] == run_html(run)
    assert shown[-1]["text/plain"] == run_text(run)


def test_terminal_prints_each_retry_and_compaction_once(capsys: pytest.CaptureFixture[str]) -> None:
    story = Story().begun().retried(1.0, 2.0).add(e.CompactionStarted, why="share", messages=4)
    story.add(e.ContextCompacted, why="share", compacted=Compacted(1, 5, 4, "Sum.")).retried(1.0).replied(Text("Done."))
    view = TerminalView()
    for event in story.run.events:
        view(event)
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == ["attempt", "attempt", "summarizing,", "4", "attempt", "Done."]


def test_terminal_prints_no_control_characters(capsys: pytest.CaptureFixture[str]) -> None:
    asyncio.run(Agent(ScriptedModel(["a\x1b[2Jb"])).run("Go.", watch=TerminalView()))
    assert "\x1b" not in capsys.readouterr().out


def test_view_shows_the_end_of_an_unloggable_run(monkeypatch: pytest.MonkeyPatch) -> None:
    class Full:
        """Has room for four events."""

        room = 4

        async def open(self, run_id: str, *, nested: bool = False) -> Full:
            return self

        def append(self, event: object) -> None:
            self.room -= 1
            if self.room < 0:
                raise OSError("no room")

        def close(self) -> None:
            pass

    shown: list[str] = []
    handle = type("Handle", (), {"update": lambda self, data, raw: shown.append(data["text/plain"])})()
    monkeypatch.setattr("agentnb.notebook.views.display", lambda data, **_: handle)
    model = ScriptedModel([ToolCall("add", {"a": 1}), "Done."])
    with pytest.raises(StoreError):
        asyncio.run(Agent(model, tools=[add]).run("Go.", store=Full(), watch=DisplayView()))
    assert shown[-1].startswith("Failed: 1 round, 1 tool call") and "could not be written" in shown[-1]


def test_terminal_prints_workflow_steps_and_the_last_output(capsys: pytest.CaptureFixture[str]) -> None:
    text = (
        "agents: {a: {}, b: {}}\nworkflow: [{type: agent, name: a}, {type: parallel, id: p, steps: [{type: agent, name: b}]}]"
    )
    asyncio.run(Workflow.from_yaml(text).run("Go.", replies={"a": ["One."], "p/b": ["Two."]}, watch=TerminalView()))
    lines = capsys.readouterr().out.splitlines()
    assert [line.rstrip() for line in lines[:4]] == ["  ✓ a  agent", "    ✓ b  agent", "  ✓ p  parallel", "Two."]
    assert lines[4].startswith("Done, not checked: 3 steps")


def test_workflow_displays_as_its_graph() -> None:
    from IPython.core.interactiveshell import InteractiveShell

    from agentnb.notebook import ipython_extension

    shell = InteractiveShell()
    ipython_extension.load(shell)
    try:
        workflow = Workflow.from_yaml("agents: {a: {}}\nworkflow: [{type: agent, name: a}]")
        shown, _ = shell.display_formatter.format(workflow)  # type: ignore[union-attr]
    finally:
        ipython_extension.unload(shell)
    assert shown["text/plain"] == "○ a  agent" and "agentnb-graph-node" in shown["text/html"]
