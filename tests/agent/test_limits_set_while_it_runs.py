"""Limits during a run: a session budget set later, a final answer blocked by a tool."""

from __future__ import annotations

import asyncio

import pytest
from run_checks import checked, codes, limits_reached
from scripted_runs import bare
from summarising import priced
from virtual_time import OnThisLoop, VirtualTimeLoop

from agentnb import ToolCall
from agentnb.detect.run import Run
from agentnb.models.scripted import ScriptedModel
from agentnb.runtime.budget import Budget
from agentnb.runtime.host.run_options import RunOptions

PATIENCE = 20


@pytest.mark.req("KX.2", "K2.2")
def test_session_budget_set_during_a_run_can_end_it() -> None:
    budget = Budget(None, name="session_budget")

    def limit(n: int) -> str:
        """Gives the session a budget."""
        budget.limit = 0.5
        return f"limited {n}"

    model = ScriptedModel([*[priced(ToolCall("limit", {"n": n}), cost=0.3) for n in range(5)], "Done."])
    run = checked(bare(model, [limit]).start("go", RunOptions(budget=budget)).result(PATIENCE))
    assert (run.status, run.stop_reason, limits_reached(run)) == ("limited", "session_budget", [("session_budget", 0.5)])
    assert [result.text for round in run.rounds for result in round.results] == ["limited 0", "limited 1"]
    assert len(model.requests) == 2 and budget.spent == pytest.approx(0.6)


@pytest.mark.req("K2.2", "KX.2", "KX.11")
@pytest.mark.parametrize("on_limit", ["stop", "final_answer"])
def test_missing_final_answer_blocked_by_a_tool_is_reported(on_limit: str) -> None:
    model = ScriptedModel([ToolCall("stubborn"), "This is what I have."])
    loop = VirtualTimeLoop()

    async def steps() -> Run:
        release = asyncio.Event()

        async def stubborn() -> str:
            """Does not let itself be cancelled."""
            while not release.is_set():
                try:
                    await release.wait()
                except asyncio.CancelledError:
                    continue
            return "late"

        agent = bare(model, [stubborn], max_seconds=5, on_limit=on_limit)
        run = await agent.start("go", RunOptions(thread=OnThisLoop(loop)))
        release.set()
        await asyncio.wait(asyncio.all_tasks() - {asyncio.current_task()})  # the abandoned tool
        return run

    try:
        run = checked(loop.run_until_complete(steps()))
    finally:
        loop.close()
    assert (run.status, run.stop_reason, limits_reached(run)) == ("limited", "max_seconds", [("max_seconds", 5)])
    assert (codes(run), len(model.requests)) == (["time_limit"], 1)
    words = ["No final answer: a tool could not be stopped"] if on_limit == "final_answer" else []
    assert list(run.warnings) == words
