"""The offer to replay a failed run under matrix, in cards, pages and text."""

from __future__ import annotations

from functools import partial

import pytest
from asserted_sentences import Snapshot
from run_builder import RunBuilder, called
from scripted_runs import add, play

from agentnb import Run, ToolCall
from agentnb.advice import Commands, Invocation
from agentnb.cli.shell_commands import SHELL
from agentnb.core.log import events as e
from agentnb.core.log.outcome import Assessment
from agentnb.core.log.work_events import OutcomeGiven
from agentnb.display.card.html import run_html
from agentnb.display.card.replay_offer import is_offered
from agentnb.display.card.run_page import page_html
from agentnb.display.card.text import run_text
from agentnb.display.texts.notebook_commands import NOTEBOOK

TYPED = "replay(run, guidance="
_run = partial(play, tools=[add])


def judged(outcome: str, status: str = "completed") -> Run:
    """A run of one round with this outcome."""
    story = RunBuilder().round("Your order has been exchanged.")
    assert outcome in ("passed", "failed")
    story.add(OutcomeGiven, assessment=Assessment("passed" if outcome == "passed" else "failed", "trace", "reward"))
    return story.add(e.RunFinished, status=status, stop_reason="natural").run


def limited() -> Run:
    return _run(ToolCall("add", {"a": 1}), "x", max_rounds=1, guidance="off")


def limited_in_a_cell() -> Run:
    built = RunBuilder(invocation=Invocation(out="mine")).round(called("add"))
    return built.add(e.RunFinished, status="limited", stop_reason="max_rounds").run


def offer(run: Run, commands: Commands = NOTEBOOK) -> str:
    """Return the lines of the text that offer a replay."""
    return "\n".join(line for line in run_text(run, commands=commands).split("\n") if "replay" in line)


def test_only_failed_runs_with_rounds_offer_a_replay(subtests: pytest.Subtests) -> None:
    cases = {
        "limit": (limited(), True),
        "limit, other policy": (_run(ToolCall("add", {"a": 1}), "x", max_rounds=1, policy="minimal"), True),
        "limit, had matrix": (_run(ToolCall("add", {"a": 1}), "x", max_rounds=1), False),
        "provider": (_run(ToolCall("add", {"a": 1}), RuntimeError("no")), False),
        "failed task": (judged("failed"), True),
        "failed task, cancelled": (judged("failed", "cancelled"), True),
        "passed": (judged("passed"), False),
        "done": (_run("Done."), False),
        "no rounds": (RunBuilder().add(e.RunFinished, status="failed", stop_reason="error").run, False),
    }
    for name, (run, offered) in cases.items():
        with subtests.test(name):
            assert is_offered(run) is offered
            assert [form.count(TYPED) for form in (run_html(run), page_html(run), run_text(run))] == [int(offered)] * 3


def test_each_surface_shows_its_own_replay_command(snapshot: Snapshot) -> None:
    assert offer(limited_in_a_cell()) == snapshot("notebook")
    run = limited()
    assert offer(run) == snapshot("Python")
    assert offer(run, SHELL) == snapshot("shell", RUN=run.id[-8:])


def test_saved_replay_command_names_the_variable_of_the_run() -> None:
    for variable, typed in {"mine": "%replay mine -g", "found[3]": "replay(found[3], guidance="}.items():
        assert typed in run_html(limited_in_a_cell(), variable=variable)
        assert f"replay({variable}, guidance=" in run_html(limited(), variable=variable)


def test_displaying_a_failed_run_does_not_replay_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("agentnb.rerun.replay.walk_rounds", None)  # it would raise if called
    for form in (run_html, page_html, run_text):
        assert TYPED in form(limited())  # type: ignore[operator]
