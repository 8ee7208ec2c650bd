"""The same chain of steps by two other libraries: a process of its own for each, started by `workflows.py`.

Usage: python benchmarks/workflow_peers.py langgraph|pydantic_graph STEPS

Prints the fewest microseconds a step of five runs. Each step adds one to a number, in an async function.
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Awaitable, Callable
from itertools import pairwise
from typing import Any

TIMES = 5


def langgraph(steps: int) -> Callable[[], Awaitable[Any]]:
    from langgraph.graph import END, START, StateGraph

    async def add(state: dict[str, int]) -> dict[str, int]:
        return {"count": state["count"] + 1}

    graph = StateGraph(dict)
    names = [START, *[f"s{number}" for number in range(steps)], END]
    for before, name in pairwise(names):
        if name != END:
            graph.add_node(name, add)
        graph.add_edge(before, name)
    app = graph.compile()
    return lambda: app.ainvoke({"count": 0}, {"recursion_limit": steps + 10})


def pydantic_graph(steps: int) -> Callable[[], Awaitable[Any]]:
    from pydantic_graph import GraphBuilder, StepContext

    builder = GraphBuilder(input_type=int, output_type=int, auto_instrument=False)

    async def add(context: StepContext[None, None, int]) -> int:
        return context.inputs + 1

    before: Any = builder.start_node
    for number in range(steps):
        step = builder.step(add, node_id=f"s{number}")
        builder.add(builder.edge_from(before).to(step))
        before = step
    builder.add(builder.edge_from(before).to(builder.end_node))
    graph = builder.build()
    return lambda: graph.run(inputs=0)


async def measured(work: Callable[[], Awaitable[Any]], steps: int) -> float:
    best = float("inf")
    for _ in range(TIMES):
        started = time.perf_counter()
        await work()
        best = min(best, time.perf_counter() - started)
    return best / steps * 1e6


if __name__ == "__main__":
    count = int(sys.argv[2])
    print(asyncio.run(measured({"langgraph": langgraph, "pydantic_graph": pydantic_graph}[sys.argv[1]](count), count)))
