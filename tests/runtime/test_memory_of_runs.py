"""Ended and unreferenced runs are freed at once, without reference cycles."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Callable, Coroutine, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from scripted_runs import agent_of
from waiting import wait_until

from agentnb import Agent, Plan, Store, ToolCall, Workflow
from agentnb.models import ScriptedModel
from agentnb.runtime.event_log import EventLog
from agentnb.tools.tool import ToolContext
from agentnb.workflow.form.workflow_spec import AgentStep, WorkflowSpec


async def add(a: int, b: int) -> int:
    return a + b


async def total(context: ToolContext) -> Any:
    """Calls another tool of the run."""
    return (await context.call("add", {"a": 1, "b": 2})).value


agent = partial(agent_of, tools=[add, total])


def steps() -> Workflow:
    each = (AgentStep(id=f"s{number}", path=f"s{number}", agent="a") for number in range(2))
    return Workflow(WorkflowSpec(steps=tuple(each)), agents={"a": agent("Done.", "Done.")})


RUNS: dict[str, Callable[[Store], Coroutine[Any, Any, Any]]] = {
    "text": lambda store: agent("Done.").run("Go"),
    "kept": lambda store: agent("Done.").run("Go", store=store),
    "calls": lambda store: agent(ToolCall("add", {"a": 1, "b": 2}), "Done.").run("Go"),
    "calls of a tool": lambda store: agent(ToolCall("total"), "Done.").run("Go"),
    "at a limit": lambda store: agent(ToolCall("add", {"a": 1, "b": 2}), "Done.", max_rounds=1).run("Go"),
    "steps": lambda store: steps().run("Go"),
}


@pytest.fixture
def no_collection() -> Iterator[None]:
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def logs() -> int:
    return sum(isinstance(value, EventLog) for value in gc.get_objects())


@pytest.mark.usefixtures("no_collection")
def test_ended_unreferenced_run_is_freed_from_memory(subtests: pytest.Subtests, tmp_path: Path) -> None:
    for name, run in RUNS.items():
        with subtests.test(name):
            before = logs()
            assert asyncio.run(run(Store(tmp_path / name))).status in ("completed", "limited")
            assert logs() == before


@pytest.mark.usefixtures("no_collection")
def test_finished_plan_leaves_no_data_in_memory() -> None:
    step = {"type": "tool", "name": "add", "args": {"a": 1, "b": 2}, "reason": "in no other test"}
    run = asyncio.run(Plan.read({"steps": [step]}).run(tools=[add]))
    assert (run.variables["results"][0]["result"], held(step["reason"])) == (3, 2)  # here, and in the log
    del run
    assert held(step["reason"]) == 1


def held(reason: Any) -> int:
    """Count the steps with this reason in memory."""
    return sum(isinstance(value, dict) and value.get("reason") == reason for value in gc.get_objects())


@pytest.mark.usefixtures("no_collection")
def test_idle_thread_of_plain_tools_keeps_no_run_in_memory() -> None:
    def plain() -> str:
        """Runs in a thread."""
        return "x"

    before = logs()
    for _ in range(2):  # in a new thread, and in an idle one
        run = asyncio.run(agent_of(ToolCall("plain"), "Done.", tools=[plain]).run("Go"))
        assert run.rounds[0].results[0].text == "x"
        del run
        wait_until(lambda: logs() <= before)


def test_abandoned_tool_cannot_call_others_after_its_run_is_freed() -> None:
    kept: list[ToolContext] = []

    async def keep(context: ToolContext) -> None:
        kept.append(context)

    async def left_behind() -> None:
        await Agent(ScriptedModel([ToolCall("keep"), "Done."]), tools=[keep, add]).run("Go")
        with pytest.raises(asyncio.CancelledError):
            await kept[0].call("add", {"a": 1, "b": 2})

    asyncio.run(left_behind())
