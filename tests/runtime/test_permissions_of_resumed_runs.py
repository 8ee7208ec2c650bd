"""Permissions of runs that start from a log: the person's mode is not loosened, and denied calls do not repeat."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from marked_logs import cut_log
from run_checks import codes

from agentnb import Agent, Run, RunOptions, Store, ToolCall, fork, recover, tool
from agentnb.core.log.events import ToolStarted
from agentnb.core.run.rounds import DENIED
from agentnb.models import ScriptedModel
from agentnb.runtime.host import consent

CALL = ToolCall("poll", {})


def agent(done: list[str], **settings: Any) -> Agent:
    """Return an agent that calls a repeatable tool once."""

    @tool(effects=["execute"], repeatable=True)
    async def poll() -> str:
        """Poll."""
        done.append("poll")
        return "nothing new"

    return Agent(ScriptedModel([[CALL], "Done."]), tools=[poll], todos=False, name="poller", **settings)


def cut(folder: Path) -> tuple[Store, Run]:
    """Return a log that ends after the start of its call, with permission for everything."""
    run = agent([]).run_sync("go", store=Store(folder), approve="auto")
    cut_log(folder / f"{run.id}.jsonl", "tool_started")
    consent._begun_here.discard(run.id)  # like another process
    return Store(folder), run


def test_foreign_log_cannot_loosen_the_persons_mode(
    subtests: pytest.Subtests, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AGENT_MODE", "read_only")
    store, run = cut(tmp_path)
    path = tmp_path / f"{run.id}.jsonl"
    path.write_bytes(path.read_bytes().replace(b'"go"', b'"Go"'))
    begun: dict[str, Callable[[list[str], RunOptions], Any]] = {
        "continued": lambda done, options: agent(done).run("on", options, continue_from=store.load(run.id)),
        "forked": lambda done, options: fork(
            store.load(run.id), 1, model=ScriptedModel([[CALL], "Done."]), tools=agent(done).tools, options=options
        ),
        "resumed": lambda done, options: recover(run.id, agent=agent(done), store=store, options=options, trust_log=False),
    }
    for name, begin in begun.items():
        with subtests.test(name):
            done: list[str] = []
            asyncio.run(begin(done, RunOptions(answer=lambda question: "approve")))
            assert done == []


DENIALS: dict[str, dict[str, Any]] = {
    "a rule": {"permissions": {"poll": "deny"}},
    "a mode": {"approve": "read_only"},
    "nobody to ask": {},
}


def test_interrupted_repeatable_call_is_judged_before_it_repeats(subtests: pytest.Subtests, tmp_path: Path) -> None:
    for name, options in DENIALS.items():
        with subtests.test(name):
            done: list[str] = []
            store, run = cut(tmp_path / name.replace(" ", "_"))
            again = asyncio.run(recover(run.id, agent=agent(done), store=store, **options))
            assert done == [] and codes(again)[0] == DENIED


def test_interrupted_repeatable_call_repeats_with_the_edited_arguments(tmp_path: Path) -> None:
    done: list[int] = []

    @tool(effects=["execute"], repeatable=True)
    async def poll(number: int) -> str:
        """Poll."""
        done.append(number)
        return "nothing new"

    polls = Agent(ScriptedModel([[ToolCall("poll", {"number": 1})], "Done."]), tools=[poll], todos=False, name="poller")
    run = polls.run_sync("go", store=Store(tmp_path), approve="auto")
    cut_log(tmp_path / f"{run.id}.jsonl", "tool_started")
    consent._begun_here.discard(run.id)
    polls = Agent(ScriptedModel(["Done."]), tools=[poll], todos=False, name="poller")
    again = asyncio.run(recover(run.id, agent=polls, store=Store(tmp_path), approve=lambda call, _: {"number": 2}))
    assert done == [1, 2] and again.rounds[0].records[0].call.arguments == {"number": 2}
    assert [(event.call.arguments["number"], event.edited) for event in again.events if isinstance(event, ToolStarted)] == [
        (1, False),
        (2, True),
    ]
    assert Run.from_events(again.events) == again
