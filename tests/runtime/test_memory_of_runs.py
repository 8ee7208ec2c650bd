"""Runs that have ended and that nobody holds are not in memory: no cycle waits for Python to collect its garbage."""

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
    return sum(isinstance(one, EventLog) for one in gc.get_objects())


@pytest.mark.usefixtures("no_collection")
def test_a_run_that_has_ended_and_that_nobody_holds_is_not_in_memory(subtests: pytest.Subtests, tmp_path: Path) -> None:
    for name, run in RUNS.items():
        with subtests.test(name):
            before = logs()
            assert asyncio.run(run(Store(tmp_path / name))).status in ("completed", "limited")
            assert logs() == before


@pytest.mark.usefixtures("no_collection")
def test_plan_that_has_run_leaves_no_data_in_memory() -> None:
    step = {"type": "tool", "name": "add", "args": {"a": 1, "b": 2}, "reason": "in no other test"}
    run = asyncio.run(Plan.read({"steps": [step]}).run(tools=[add]))
    assert (run.variables["results"][0]["result"], held(step["reason"])) == (3, 2)  # here, and in the log
    del run
    assert held(step["reason"]) == 1


def held(reason: Any) -> int:
    """Return how many steps with this reason are in memory."""
    return sum(isinstance(one, dict) and one.get("reason") == reason for one in gc.get_objects())


@pytest.mark.usefixtures("no_collection")
def test_idle_thread_of_plain_tools_keeps_no_run_in_memory() -> None:
    def plain() -> str:
        """Runs in a thread."""
        return "x"

    before = logs()
    for _ in range(2):  # in a new thread, and in one that is idle
        run = asyncio.run(agent_of(ToolCall("plain"), "Done.", tools=[plain]).run("Go"))
        assert run.rounds[0].results[0].text == "x"
        del run
        wait_until(lambda: logs() <= before)


def test_a_tool_left_behind_can_call_no_other_once_its_run_is_out_of_memory() -> None:
    kept: list[ToolContext] = []

    async def keep(context: ToolContext) -> None:
        kept.append(context)

    async def left_behind() -> None:
        await Agent(ScriptedModel([ToolCall("keep"), "Done."]), tools=[keep, add]).run("Go")
        with pytest.raises(asyncio.CancelledError):
            await kept[0].call("add", {"a": 1, "b": 2})

    asyncio.run(left_behind())
