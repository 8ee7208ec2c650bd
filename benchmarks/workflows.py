"""What a step of a workflow costs, and whether long and wide workflows stay bounded.

Usage: python benchmarks/workflows.py [--peers PYTHON] [--steps 10000] [--wide 1000]

Each row is a process of its own. ``--peers``: a Python that has langgraph and pydantic-graph, which then do the same chain of
async functions. The fewest microseconds of several runs count; memory is the peak of the resident set.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import resource
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

CHAIN = 200
"""Steps of the chains that are compared."""
TIMES = 7


def tool_chain(steps: int) -> Any:
    from agentnb import Workflow
    from agentnb.workflow.form.workflow_spec import ToolStep, WorkflowSpec

    async def add(x: int) -> int:
        """Add one."""
        return x + 1

    each = [ToolStep(id=f"s{number}", path=f"s{number}", tool="add", args={"x": number}) for number in range(steps)]
    return Workflow(WorkflowSpec(steps=tuple(each)), tools=(add,))


def fan_out(items: int) -> Any:
    from agentnb import Workflow
    from agentnb.workflow.form.workflow_spec import MapStep, ToolStep, WorkflowSpec

    async def add(x: int) -> int:
        """Add one."""
        return x + 1

    step = ToolStep(id="add", path="each/add", tool="add", args={"x": "{{ $item }}"})
    return Workflow(WorkflowSpec(steps=(MapStep(id="each", path="each", over=list(range(items)), step=step),)), tools=(add,))


def agent_and_chain(steps: int) -> tuple[Any, Any]:
    from agentnb import Agent, Workflow
    from agentnb.core.messages import Message, Text
    from agentnb.core.usage import Usage
    from agentnb.models import Reply
    from agentnb.workflow.form.workflow_spec import AgentStep, WorkflowSpec

    class Steady:
        name = "scripted:steady"

        async def stream(self, request: Any) -> AsyncIterator[Any]:
            yield Reply(Message("assistant", (Text("Done."),)), Usage(1, 1, cost=0.0), "end_turn")

    agent = Agent(Steady(), name="a", todos=False)
    each = [AgentStep(id=f"s{number}", path=f"s{number}", agent="a", context="none") for number in range(steps)]
    return agent, Workflow(WorkflowSpec(steps=tuple(each)), agents={"a": agent})


async def fewest(work: Callable[[], Awaitable[Any]], units: int) -> float:
    best = float("inf")
    for _ in range(TIMES):
        started = time.perf_counter()
        await work()
        best = min(best, time.perf_counter() - started)
    return best / units * 1e6


# The rows, each in a process of its own


async def tool_step() -> float:
    workflow = tool_chain(CHAIN)
    return await fewest(lambda: workflow.run("Go", show=False), CHAIN)


async def agent_step() -> tuple[float, float]:
    agent, workflow = agent_and_chain(CHAIN)

    async def alone() -> None:
        for _ in range(CHAIN):
            await agent.run("Go", show=False)

    both = [float("inf"), float("inf")]
    for _ in range(TIMES):  # in turns, as the machine is shared
        for place, work in enumerate((alone, lambda: workflow.run("Go", show=False))):
            started = time.perf_counter()
            await work()
            both[place] = min(both[place], (time.perf_counter() - started) / CHAIN * 1e6)
    return both[0], both[1]


async def memory(make: Callable[[int], Any], count: int) -> tuple[float, float]:
    """Return the peak in MB and the seconds of one run."""
    workflow = make(count)
    started = time.perf_counter()
    run = await workflow.run("Go", show=False)
    assert run.status == "completed"
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, time.perf_counter() - started


async def long(count: int) -> tuple[float, float]:
    return await memory(tool_chain, count)


async def wide(count: int) -> tuple[float, float]:
    return await memory(fan_out, count)


ROWS: dict[str, Callable[..., Awaitable[Any]]] = {"tool": tool_step, "agent": agent_step, "long": long, "wide": wide}


def of(row: str, *count: int) -> Any:
    """Return what a row gives in a process of its own."""
    command = [sys.executable, __file__, "--row", row, *map(str, count)]
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def of_peer(python: str, name: str) -> float:
    script = Path(__file__).with_name("workflow_peers.py")
    done = subprocess.run([python, "-P", str(script), name, str(CHAIN)], check=True, capture_output=True, text=True)
    return float(done.stdout)


def main(peers: str, steps: int, items: int) -> None:
    tool = of("tool")
    print(f"a step with a tool: {tool:.0f} microseconds")
    for name in ("langgraph", "pydantic_graph") if peers else ():
        peer = of_peer(peers, name)
        print(f"  over one of {name} ({peer:.0f}): {tool / peer:.2f}")
    alone, step = of("agent")
    print(f"a step with an agent, over its run alone: {step / alone:.2f}")
    for row, count in (("long", steps), ("wide", items)):
        few, many = of(row, count // 10), of(row, count)
        each = (many[0] - few[0]) * 1024 / (count - count // 10)
        growth = many[1] / few[1] / 10
        print(f"{row}: {count:,} steps, peak {many[0]:.0f} MB, {each:.1f} kB a step")
        print(f"  a step over one of {count // 10:,}: {growth:.2f}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--peers", default="")
    parser.add_argument("--steps", type=int, default=10_000)
    parser.add_argument("--wide", type=int, default=1_000)
    parser.add_argument("--row", nargs="+")
    given = parser.parse_args()
    if given.row:
        print(json.dumps(asyncio.run(ROWS[given.row[0]](*map(int, given.row[1:])))))  # type: ignore[arg-type]
    else:
        main(given.peers, given.steps, given.wide)
