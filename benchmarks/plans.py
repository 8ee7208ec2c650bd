"""The cost of plans, as ratios within one run.

Usage: python benchmarks/plans.py [--steps 1000] [--turns 15]
A step of a plan is compared with a ``tool`` step of a workflow, each as the difference of runs of many and of few steps,
validating a plan with reading it as YAML, and the time until a suspended run takes its next step with the fold of its log. The
sides take turns, each after a collection of garbage; the fewest seconds of each count.

A plan is compiled in each run, a workflow in its first: so a step is compared with one of a workflow that has run before, and
with one of a workflow that has not.

A plan that a chat makes and runs at once is compared with workflows that a tool of an agent runs, for which the models give as
many replies; medians of turns, in memory and with logs.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import statistics
import tempfile
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from time import perf_counter, process_time
from typing import Any

from workflows import tool_chain

from agentnb import Agent, Plan, Plans, Run, RunOptions, Store, ToolCall, Workflow, recover, validate_plan
from agentnb.core.messages import user
from agentnb.core.request import Request
from agentnb.models import ScriptedModel
from agentnb.tools.tool import ToolContext
from agentnb.workflow.form.problems import Problems
from agentnb.workflow.form.yaml_source import read_yaml

FEW, VALIDATED, SUSPENDED, OF_CHAT = 200, 1_000, 500, 10
RUNS = 3
"""Of a chat, in each turn."""
PLANNING = Request("Plan how to add.", (user("Add."),))
PLANNED = """
init: {results: []}
stage:
  plan:
    action: llm/core:plan
    input: {query: "${query}", results: "${results}"}
    post: {plan: "${plan}"}
  exec:
    action: llm/exec:run_plan
    input: {plan: "${plan}", results: "${results}"}
    post: {results: "${results}"}
"""
"""A plan of a model, with its steps."""


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
            gc.collect()
            started = process_time()
            await side()
            best[place] = min(best[place], process_time() - started)
    return best


def plan_and_workflows(count: int) -> list[Callable[[], Awaitable[Any]]]:
    """Return the runs of a plan, of a workflow that has run before, and of one that has not, all of so many steps."""
    plan, workflow = plan_of(count), tool_chain(count)
    return [
        lambda: plan.run(tools=[add], show=False),
        lambda: workflow.run("Go", show=False),
        lambda: Workflow(workflow.spec, tools=workflow.tools).run("Go", show=False),
    ]


async def steps(count: int, turns: int) -> tuple[float, float]:
    """Return the cost of another step of a plan: over one of a workflow that has run before, and of one that has not."""
    best = await fewest(turns, *plan_and_workflows(FEW), *plan_and_workflows(count))
    of_plan, *of_workflows = [many - few for few, many in zip(best[:3], best[3:], strict=True)]
    again, first = [of_plan / seconds for seconds in of_workflows]
    return again, first


async def validated(turns: int) -> float:
    """Return the cost of validating a plan, over reading it as YAML."""
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


def chat_reply() -> str:
    """Return the planner's reply: calls of which each comes after the one before."""
    about = {"type": "action", "tools": ["add"], "executorRequired": False}
    steps = [
        {"stepNumber": x + 1, "description": f"Add {x}", "args": {"x": x}, "dependsOn": [x] if x else [], **about}
        for x in range(OF_CHAT)
    ]
    return json.dumps({"steps": steps, "reasoning": "One after the other."})


def talking(call: ToolCall, *tools: Any, **settings: Any) -> Agent:
    """Return an agent whose model makes this call, plans, and says that it is done."""
    model = ScriptedModel([call, chat_reply(), "Done."], repeat=True, stream=False)
    return Agent(model, tools=[add, *tools], policy="chat", todos=False, instructions=False, **settings)


def planning_chat() -> Agent:
    """Return the agent that makes a plan and runs it at once."""
    return talking(ToolCall("agent_create_plan", {"objective": "Add"}, "c1"), extensions=[Plans()])


def working_chat(workflow: Workflow, *, is_planned: bool) -> Agent:
    """Return the agent with a tool that runs the workflow; the model is asked for a plan, by the workflow or before it."""

    async def work(context: ToolContext) -> str:
        """Do the work."""
        if not is_planned:
            await context.inside.ask_model(PLANNING, "plan_generation")
        run = await context.start_run(what, "Add")
        assert run.status == "completed", run.error
        return "worked"

    agent = talking(ToolCall("work", {}, "c1"), work)
    what = workflow.orchestration(tools=[add], model=agent.model) if is_planned else workflow
    return agent


async def chats(turns: int, store: Store | None) -> list[float]:
    """Return the cost of a chat with a plan: over the plan as a workflow, and over its calls as one that needs no plan."""
    planned, fixed = Workflow.from_yaml(PLANNED), tool_chain(OF_CHAT)
    sides = [planning_chat(), working_chat(planned, is_planned=True), working_chat(fixed, is_planned=False)]
    seconds: list[list[float]] = [[] for _ in sides]
    for _ in range(turns * RUNS):
        for agent, taken in zip(sides, seconds, strict=True):
            started = process_time()
            for _ in range(RUNS):
                run = await agent.run("Go", store=store, show=False)
                assert (run.status, run.text) == ("completed", "Done."), run.error
                assert all(step.status == "completed" for step in run.step_records.values())
            taken.append(process_time() - started)
    chat, *others = map(statistics.median, seconds)
    return [chat / other for other in others]


async def main(count: int, turns: int) -> None:
    again, first = await steps(count, turns)
    print(f"a step of a plan, over a tool step of a workflow that has run before (goal: at most 1.05): {again:.2f}")
    print(f"  of one that has not: {first:.2f}")
    print(f"validating {VALIDATED:,} steps, over reading them as YAML (goal: under 1): {await validated(turns):.2f}")
    best, folded = await resumed(turns)
    goal = 1.5 * folded + 0.2
    print(f"a suspended run of {SUSPENDED} steps until its end, over 1.5 folds of its log and 0.2 s: {best / goal:.2f}")
    with tempfile.TemporaryDirectory() as folder:
        stores: Sequence[tuple[str, Store | None]] = [("in memory", None), ("with logs", Store(Path(folder)))]
        for where, store in stores:
            planned, fixed = await chats(turns, store)
            print(f"a chat that plans {OF_CHAT} calls and runs them {where}, over a tool that runs a workflow")
            print(f"  which plans and runs the same (goal: at most 1.2): {planned:.2f}")
            print(f"  of these calls, with as many replies of a model: {fixed:.2f}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=1_000)
    parser.add_argument("--turns", type=int, default=15)
    given = parser.parse_args()
    asyncio.run(main(given.steps, given.turns))
