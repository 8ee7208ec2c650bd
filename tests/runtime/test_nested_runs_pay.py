"""Nested runs spend from the budget of the tool's run, on any thread."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from asserted_sentences import Snapshot

from agentnb import Agent, Run, Store, ToolCall, tool
from agentnb.core.messages import Message, Text
from agentnb.core.usage import Usage
from agentnb.errors import SettingsError
from agentnb.models import ScriptedModel
from agentnb.models.model import Reply
from agentnb.runtime.budget import current_budget
from agentnb.session.session import Session

COST = 0.25


def paid(words: str) -> Reply:
    return Reply(Message("assistant", (Text(words),)), usage=Usage(cost=COST), stop_reason="end_turn")


def inner_agent() -> Agent:
    return Agent(ScriptedModel([paid("inner")]), guidance="off")


def tools(inner: list[Run], threads: list[str]) -> dict[str, Callable[..., Any]]:
    """Return a tool for each kind of thread; each starts runs."""

    def plain(count: int) -> str:
        """Ask another agent, so many times."""
        threads.append(threading.current_thread().name)
        for _ in range(count):
            run = inner_agent().run_sync("go")
            inner.append(run)
        return "asked"

    @tool(parallel_safe=True)
    def beside(count: int) -> str:
        """Ask another agent, beside other calls."""
        return plain(count)

    async def awaited(count: int) -> str:
        """Ask another agent, on the event loop."""
        threads.append(threading.current_thread().name)
        for _ in range(count):
            run = await inner_agent().run("go")
            inner.append(run)
        return "asked"

    return {"plain": plain, "beside": beside, "awaited": awaited}


def outer_agent(calls: list[ToolCall], inner: list[Run], threads: list[str], **settings: Any) -> Agent:
    """Return an agent that makes these calls, one per round, and pays for its last reply only."""
    model = ScriptedModel([*calls, paid("outer")])
    return Agent(model, tools=list(tools(inner, threads).values()), guidance="off", todos=False, **settings)


@pytest.mark.parametrize(("name", "place"), [("plain", "MainThread"), ("beside", "agentnb-tool"), ("awaited", "agentnb")])
def test_nested_run_spends_from_its_parents_budget(name: str, place: str) -> None:
    inner: list[Run] = []
    threads: list[str] = []
    calls = [ToolCall(name, {"count": 1}), ToolCall(name, {"count": 2})]
    run = outer_agent(calls, inner, threads, budget=3 * COST).run_sync("go")
    assert threads == [place, place]
    assert [one.spent for one in inner] == [COST] * 3
    assert (run.status, run.stop_reason, run.spent, run.own_spent) == ("limited", "budget", 3 * COST, 0)
    assert current_budget.get() is None


@pytest.mark.parametrize("name", ["plain", "beside", "awaited"])
def test_nested_run_without_remaining_budget_is_refused_with_an_error(name: str) -> None:
    inner: list[Run] = []
    run = outer_agent([ToolCall(name, {"count": 3})], inner, [], budget=2 * COST).run_sync("go")
    assert [one.spent for one in inner] == [COST] * 2
    assert "The budget is used up" in run.rounds[0].results[0].text


def test_runs_started_by_tools_spend_from_the_session_budget(tmp_path: Path) -> None:
    session = Session(Store(tmp_path))
    session.set_default("session-budget", "10")
    inner: list[Run] = []
    for name in ("plain", "beside", "awaited"):
        session.start(outer_agent([ToolCall(name, {"count": 2})], inner, []), "go").result(30)
    assert [one.spent for one in inner] == [COST] * 6
    assert session.budget.spent == pytest.approx(9 * COST)


def test_budget_of_a_main_thread_tool_is_reset_afterwards() -> None:
    seen: list[Any] = []

    def look() -> str:
        """Look."""
        seen.append(current_budget.get())
        return "ok"

    before = current_budget.get()
    Agent(ScriptedModel([ToolCall("look", {}), "done"]), tools=[look], todos=False, budget=1).run_sync("go")
    assert seen[0] is not None and seen[0].limit == 1
    assert current_budget.get() is before


def test_exhausted_session_budget_refuses_runs_and_suggests_a_command(tmp_path: Path, snapshot: Snapshot) -> None:
    session = Session(Store(tmp_path))
    session.set_default("session-budget", "$0.25")
    run = session.start(Agent(ScriptedModel([paid("one")]), guidance="off"), "go").result(30)
    assert run.status == "completed"
    with pytest.raises(SettingsError, check=snapshot.worded):
        session.start(Agent(ScriptedModel([paid("two")])), "go")
    session.set_default("session-budget", "")
    assert session.start(Agent(ScriptedModel(["three"])), "go").result(30).text == "three"
