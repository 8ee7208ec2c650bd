"""Nested agents, workflows and orchestrations are paused and resumed with their parent run."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from own_orchestrator import side_by_side
from scripted_runs import bare
from virtual_time import OnThisLoop, VirtualTimeLoop

from agentnb import Run, RunOptions, Store, ToolCall, Workflow
from agentnb.core.log.events import CommandReceived
from agentnb.core.run.inner_calls import all_calls
from agentnb.models import ScriptedModel
from agentnb.runtime.host.live_run import LiveRun
from agentnb.runtime.runs.orchestration import Orchestration
from agentnb.runtime.steps.step_orchestrator import StepOrchestrator
from agentnb.tools.tool import ToolContext


async def noted() -> str:
    """Note."""
    return "noted"


def replies(*lines: Any) -> Any:
    return bare(ScriptedModel([*lines]), [noted])


def test_tool_can_start_an_agent_workflow_or_orchestration(tmp_path: Path, subtests: pytest.Subtests) -> None:
    runnables: dict[str, Callable[[], Any]] = {
        "agent": lambda: replies("Done."),
        "workflow": lambda: Workflow.from_yaml("workflow: [{type: tool, name: noted}]\n", tools=[noted]),
        "orchestration": lambda: side_by_side(replies("Left."), replies("Right.")),
    }
    for name, make in runnables.items():
        inner: list[Run] = []

        async def delegate(context: ToolContext) -> str:
            inner.append(await context.start_run(make(), "Go."))  # noqa: B023  # called within this turn
            return "delegated"

        step = Workflow.from_yaml("workflow: [{type: tool, name: delegate}]\n", tools=[delegate])
        for caller, outer in {"round": bare(ScriptedModel([ToolCall("delegate"), "Done."]), [delegate]), "step": step}.items():
            with subtests.test(f"{name} in a {caller}"):
                store = Store(tmp_path / name / caller)
                run = asyncio.run(outer.run("Go.", store=store, show=False))
                assert (run.status, inner[-1].status, inner[-1].parent_id) == ("completed", "completed", run.id)
                assert store.load(inner[-1].id) == inner[-1]
                (record,) = all_calls(store.load(run.id))
                assert [(begun.run_id, begun.agent) for begun in record.nested] == [(inner[-1].id, inner[-1].agent)]


def commands(run: Run) -> list[str]:
    return [event.command for event in run.events if isinstance(event, CommandReceived)]


def paused_for_long(outer_of: Callable[[Callable[[], LiveRun], list[Run]], Any]) -> tuple[Run, Run, bool]:
    """Pause the parent for 100 s from the nested run; return both, and whether the nested run continued."""
    handles: list[LiveRun] = []
    inner: list[Run] = []

    async def play() -> tuple[Run, Run, bool]:
        here = OnThisLoop(asyncio.get_running_loop())
        live = outer_of(lambda: handles[0], inner).start("Go.", RunOptions(thread=here, can_ask=True, show=False))
        handles.append(live)
        await asyncio.sleep(100)
        went_on = live.done or bool(inner)
        live.resume()
        return await live, inner[0], went_on

    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        return runner.run(play())


def test_pause_stops_nested_runs_and_their_clocks(subtests: pytest.Subtests) -> None:
    def pausing(live: Callable[[], LiveRun]) -> Any:
        async def pause() -> str:
            """Pause the parent run."""
            await asyncio.sleep(0)
            live().pause()
            return "paused"

        return bare(ScriptedModel([ToolCall("pause"), "Done."]), [pause])

    def tool_of_an_agent(live: Callable[[], LiveRun], inner: list[Run]) -> Any:
        async def delegate(context: ToolContext) -> str:
            inner.append(await context.start_run(pausing(live), "Go."))
            return "delegated"

        return bare(ScriptedModel([ToolCall("delegate"), "Done."]), [delegate], max_seconds=5)

    def step(live: Callable[[], LiveRun], inner: list[Run]) -> Any:
        class One(StepOrchestrator):
            async def orchestrate(self) -> None:
                inner.append(await self.run("one", pausing(live), "Go."))

        return Orchestration(make=One, max_seconds=5)

    for name, outer_of in {"tool": tool_of_an_agent, "step": step}.items():
        with subtests.test(name):
            run, inner, went_on = paused_for_long(outer_of)
            assert (run.status, inner.status, went_on) == ("completed", "completed", False), run.stop_reason
            assert commands(run) == commands(inner) == ["pause", "resume"]


def test_nested_run_of_a_paused_run_starts_paused() -> None:
    def outer_of(live: Callable[[], LiveRun], inner: list[Run]) -> Any:
        async def delegate(context: ToolContext) -> str:
            """Begin a run after the pause."""
            await asyncio.sleep(0)
            live().pause()
            inner.append(await context.start_run(replies("Done."), "Go."))
            return "delegated"

        return bare(ScriptedModel([ToolCall("delegate"), "Done."]), [delegate], max_seconds=5)

    run, inner, went_on = paused_for_long(outer_of)
    assert (run.status, inner.status, went_on) == ("completed", "completed", False)
