"""Steps of an agent's run: nested runs started by an extension between two rounds."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from waiting import PATIENCE, wait_until

from agentnb import Agent, Extension, Run, RunOptions, Stop, Store, ToolCall, recover, tool
from agentnb.core.log.events import RunSuspended
from agentnb.core.log.work_events import StepFinished, StepStarted
from agentnb.errors import ProviderTrouble, SettingsError
from agentnb.models.scripted import ScriptedModel
from agentnb.policies import Interlude

STEP = "step-1"


class Refusing:
    """A runnable that refuses to run."""

    async def run(self, prompt: str, options: Any = None) -> Any:
        raise SettingsError("It has no model", "Give one")


@tool
async def wait_for_ever() -> str:
    """Wait."""
    await asyncio.Event().wait()
    return ""


@tool(effects={"write"})
def mend_net(name: str) -> str:
    """Mend a net."""
    return f"{name} is mended"


def agent(inner: Any, *replies: Any, seconds: float | None = None, **parts: Any) -> Agent:
    """Return an agent whose runs end with this nested run as a step."""

    def output(run: Any) -> dict[str, Any]:
        return {"text": run.text}

    async def work(inside: Any, ask: Any) -> None:
        with suppress(SettingsError, TimeoutError):
            await inside.start_step(STEP, inner, output, agent="mender", inputs={"net": 1}, seconds=seconds)

    def ending(run: Any) -> Any:
        step = run.step_records.get(STEP)
        return Interlude(STEP, work) if step is None or step.status == "running" else None

    extension = Extension(name="mends", endings=(ending,), **parts)
    return Agent(ScriptedModel([*replies]), extensions=[extension], todos=False, instructions=False)


class Mending:
    """An agent whose prompt is always the same."""

    def __init__(self, made: Agent) -> None:
        self._agent = made

    async def run(self, prompt: str, options: RunOptions | None = None) -> Run:
        return await self._agent.run("Mend it", options)

    async def resume_here(self, run: Run, writer: Any = None, options: RunOptions | None = None) -> Run:
        return await self._agent.resume_here(run, writer, options)


def nested(*replies: Any, **settings: Any) -> Mending:
    tools = [wait_for_ever, mend_net]
    return Mending(Agent(ScriptedModel([*replies]), todos=False, instructions=False, tools=tools, **settings))


def steps(run: Any) -> list[Any]:
    """Return the step events of a run."""
    return [event for event in run.events if isinstance(event, StepStarted | StepFinished)]


def test_step_is_logged_with_its_nested_run_and_status(subtests: pytest.Subtests) -> None:
    waits = ToolCall("wait_for_ever", {}, "call_1")
    cases: dict[str, tuple[Any, float | None, str, Any, str]] = {
        "completed": (nested("Mended."), None, "completed", {"text": "Mended."}, ""),
        "failed": (nested(ProviderTrouble("down", "Later")), None, "failed", {"text": ""}, "failed: error"),
        "never begun": (Refusing(), None, "failed", None, "It has no model"),
        "at its time limit": (nested(waits), 0.05, "failed", None, "longer than 0.05 s"),
    }
    for name, (inner, seconds, status, output, error) in cases.items():
        with subtests.test(name):
            run = agent(inner, "Done.", seconds=seconds).run_sync("Mend it")
            started, finished = steps(run)
            assert (started.step, started.agent, started.inputs) == (STEP, "mender", {"net": 1}) and started.nested
            assert (finished.status, finished.output) == (status, output) and error in finished.error
            assert bool(finished.error) is (status == "failed") and run.status == "completed"


def test_step_is_cancelled_with_its_stopped_run() -> None:
    live = agent(nested(ToolCall("wait_for_ever", {}, "call_1")), "Done.").start("Mend it")
    wait_until(lambda: steps(live.run))
    live.stop()
    run = live.result(PATIENCE)
    assert run.status == "cancelled" and [step.status for step in run.step_records.values()] == ["cancelled"]


def test_waiting_step_stays_open_until_resumed_or_its_run_ends(tmp_path: Path) -> None:
    asks = ToolCall("mend_net", {"name": "net"}, "call_1")
    for number, policies in enumerate([(), (lambda run: Stop("enough", "limited"),)]):
        store = Store(tmp_path / str(number))
        left = asyncio.run(agent(nested(asks, approve="ask"), "Done.").run("Mend it", RunOptions(store=store, suspend=True)))
        (started,) = steps(left)
        assert left.is_suspended and any(isinstance(event, RunSuspended) for event in left.events)
        answers = {question.id: "approve" for question in left.waiting}
        again = agent(nested("Mended.", approve="ask"), "Never.", policies=policies)
        done = asyncio.run(recover(left.id, agent=again, store=store, trust_log=True, answers=answers))
        assert steps(done)[0] == started and len(steps(done)) == 2
        finished = steps(done)[1]
        if policies:
            assert (finished.status, done.status) == ("cancelled", "limited")
        else:
            assert (finished.status, finished.output, done.status) == ("completed", {"text": "Mended."}, "completed")
