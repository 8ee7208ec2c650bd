"""The cost of a context: a turn with one over the same turn without, as a ratio within one run.

Usage: python benchmarks/contexts.py [--turns 60]
The turn calls a tool twice and answers. The sides take turns; the fewest seconds of each count.
"""

from __future__ import annotations

import argparse
import asyncio
from time import process_time
from typing import Any

from agentnb import Agent, ContextType, ToolCall
from agentnb.models import ScriptedModel

RUNS = 20
"""Turns that are measured together."""


async def add(x: int) -> int:
    """Add one."""
    return x + 1


def script() -> ScriptedModel:
    """Return a model of one turn, again and again."""
    return ScriptedModel([ToolCall("add", {"x": 1}, "c1"), ToolCall("add", {"x": 2}, "c2"), "Three."], repeat=True)


async def seconds(agent: Agent) -> float:
    """Return the seconds of work of some turns."""
    started = process_time()
    for _ in range(RUNS):
        run = await agent.run("Add", show=False)
        assert run.status == "completed", run.error
    return process_time() - started


async def main(turns: int) -> None:
    settings: dict[str, Any] = {"tools": [add], "instructions": False}
    plain = Agent(script(), policy="chat", **settings)
    within = ContextType.named("project").apply(Agent(script(), **settings), "project-harbours")
    best = {"plain": float("inf"), "within": float("inf")}
    for _ in range(turns):
        for name, agent in (("plain", plain), ("within", within)):
            best[name] = min(best[name], await seconds(agent))
    print(f"a turn with a context, over the same turn without (goal: at most 1.1): {best['within'] / best['plain']:.2f}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--turns", type=int, default=60)
    asyncio.run(main(parser.parse_args().turns))
