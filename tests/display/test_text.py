"""A run as plain text."""

from __future__ import annotations

import asyncio
from functools import partial

from scripted_runs import play

from agentnb.agent.agent import Agent
from agentnb.core.messages import ToolCall
from agentnb.detect.run import Run
from agentnb.display.card.text import run_text
from agentnb.models import ScriptedModel


def add(a: int, b: int = 2) -> int:
    """Add."""
    return a + b


made = partial(play, tools=[add], prompt="Go.")


def test_finished_run_shows_its_end_and_usage() -> None:
    text = run_text(made(["Adding.", ToolCall("add", {"a": 1})], "It is 3."))
    assert text.startswith("Done, not checked: 2 rounds, 1 tool call, ")
    assert "add(a=1)" in text and "→ 3" in text and "It is 3." in text


def test_limited_run_names_the_limit_and_what_to_type() -> None:
    shown = run_text(made(ToolCall("add", {"a": 1}), "x", max_rounds=1))
    assert shown.startswith("Limit reached: 1 round · 1 round, ")
    assert "Continue: agent.run(PROMPT, continue_from=run)" in shown.splitlines()


def test_long_running_run_shows_only_its_last_rounds() -> None:
    run = made(*[ToolCall("add", {"a": n}) for n in range(40)], "Done.")
    growing = Run.from_events(run.events[:-3])
    assert growing.should_continue
    assert "earlier rounds" in run_text(growing) and run_text(growing).count("add") <= 13
    assert run_text(run).count("add(a=") == 40


def test_calls_ended_by_a_stop_are_not_labelled_failed() -> None:
    live = Agent(ScriptedModel([ToolCall("wait")]), tools=[wait]).start("Go.")
    while not live.run.rounds or not live.run.rounds[-1].records:
        pass
    live.stop()
    text = run_text(live.result(30))
    assert "■ stopped by you" in text and "failed" not in text


async def wait() -> None:
    """Wait."""
    await asyncio.Event().wait()
