"""What plans cost, as ratios within one run.

Usage: python benchmarks/plans.py [--steps 200] [--turns 9]
A step of a plan is compared with a ``tool`` step of a workflow, validating a plan with reading it as YAML, and the time until a
suspended run takes its next step with the fold of its log. The sides take turns; the fewest seconds of each count.
"""

from __future__ import annotations

import argparse
import asyncio
import tempfile
from collections.abc import Awaitable, Callable
from pathlib import Path
from time import perf_counter, process_time
from typing import Any

from workflows import tool_chain

from agentnb import Plan, Run, RunOptions, Store, Workflow, recover, validate_plan
from agentnb.workflow.form.problems import Problems
from agentnb.workflow.form.yaml_source import read_yaml

VALIDATED, SUSPENDED = 1_000, 500


async def add(x: int) -> int:
    """Add one."""
    return x + 1


def plan_of(steps: int, *more: dict[str, Any]) -> Plan:
    """Return a plan of so many different calls, and more steps."""
    calls = [{"type": "tool", "name": "add", "args": {"x": number}} for number in range(steps)]
    return Plan.read({"steps": [*calls, *more]})


async def fewest(turns: int, *sides: Callable[[], Awaitable[Any]]) -> list[float]:
    """Return the fewest seconds of work of each side, which take turns."""
    best = [float("inf")] * len(sides)
    for _ in range(turns):
        for place, side in enumerate(sides):
            started = process_time()
            await side()
            best[place] = min(best[place], process_time() - started)
    return best


async def steps(count: int, turns: int) -> float:
    """Return what a step of a plan costs, over one of a workflow."""
    plan, workflow = plan_of(count), tool_chain(count)
    of_plan, of_workflow = await fewest(
        turns, lambda: plan.run(tools=[add], show=False), lambda: workflow.run("Go", show=False)
    )
    return of_plan / of_workflow


async def validated(turns: int) -> float:
    """Return what validating a plan costs, over reading it as YAML."""
    plan = plan_of(VALIDATED)
    text = plan.to_yaml()

    async def validate() -> None:
        assert validate_plan(plan, [add]) == []

    async def read() -> None:
        read_yaml(text, Problems())

    of_plan, of_yaml = await fewest(max(turns // 3, 1), validate, read)
    return of_plan / of_yaml


async def resumed(turns: int) -> tuple[float, float]:
    """Return the seconds until a suspended run takes its next step, and those of the fold of its log."""
    asked = {"type": "elicitation", "content": "Go on?"}
    best, folded = float("inf"), float("inf")
    for _ in range(max(turns // 3, 1)):
        with tempfile.TemporaryDirectory() as folder:
            store, plan = Store(Path(folder)), plan_of(SUSPENDED, asked)
            run = await plan.run(RunOptions(store=store, suspend=True, show=False), tools=[add])
            assert run.status == "waiting_on_user", run.error
            started = perf_counter()
            Run.from_events(store.load(run.id).events)
            folded = min(folded, perf_counter() - started)
            (question,) = run.waiting
            what = Workflow.of_run(run, tools=[add]).orchestration(inputs=run.settings["inputs"])
            started = perf_counter()
            again = await recover(run.id, store=store, agent=what, answers={question.id: "yes"})
            best = min(best, perf_counter() - started)
            assert again.status == "completed", again.error
    return best, folded


async def main(count: int, turns: int) -> None:
    print(f"a step of a plan, over a tool step of a workflow (goal: at most 1.2): {await steps(count, turns):.2f}")
    print(f"validating {VALIDATED:,} steps, over reading them as YAML (goal: under 1): {await validated(turns):.2f}")
    best, folded = await resumed(turns)
    goal = 1.5 * folded + 0.2
    print(f"a suspended run of {SUSPENDED} steps until its end, over 1.5 folds of its log and 0.2 s: {best / goal:.2f}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--turns", type=int, default=9)
    given = parser.parse_args()
    asyncio.run(main(given.steps, given.turns))
