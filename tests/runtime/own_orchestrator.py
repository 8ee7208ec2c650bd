"""A custom orchestrator, as written outside agentnb: public API only, at most 40 lines."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from agentnb import Agent, Run
from agentnb.runtime.runs.orchestration import Orchestration
from agentnb.runtime.steps.step_orchestrator import StepOrchestrator


class SideBySide(StepOrchestrator):
    """Runs two agents in parallel, then joins their answers."""

    left: Agent
    right: Agent
    join: Callable[[list[str]], Any]

    async def orchestrate(self) -> None:
        prompt = self.log.run.prompt
        runs = await self.together(
            self.run("left", self.left, f"{prompt} Left.", title="The left half"),
            self.run("right", self.right, f"{prompt} Right.", title="The right half"),
        )

        async def join() -> Any:
            return self.join([run.text for run in runs])

        if all(run.is_answered for run in runs):
            await self.do("join", join, inputs=[run.id for run in runs])


def side_by_side(left: Agent, right: Agent, join: Callable[[list[str]], Any] = " and ".join, **settings: Any) -> Orchestration:
    parts = type("Pair", (SideBySide,), {"left": left, "right": right, "join": staticmethod(join)})
    return Orchestration(make=parts, name="pair", **settings)


def progress_line(run: Run) -> str:
    done = run.progress
    return "" if done is None else f"{done.done:g} of {done.total:g} steps" + f", now: {done.text}" * bool(done.text)
