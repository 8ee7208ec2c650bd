"""Small searches: personas that talk unless they are asked for a call, and cells whose values are drawn instead of run."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest
from small_experiments import TwoRounds, check_line, rows, was_called

from agentnb import optimise
from agentnb.experiments.results.rows import Row
from agentnb.experiments.running.cell_work import CellRun, Job
from agentnb.experiments.running.engine import InKernel
from agentnb.experiments.search.proposals import ProposalRequest
from agentnb.experiments.search.search import Search

CHATTY = "simulated:chatty?p=0.8&heed=0.9"
PRICED = f"{CHATTY}&price=3/15"
LINES = ("Be brief.", "Write politely.", "Call the tool now.", "Check the result.")
"""Lines that are proposed one after the other: only the third asks for a call."""
ASKS = LINES[2]


def propose(request: ProposalRequest) -> dict[str, str]:
    return {"part": "todos_tools", "line": LINES[len(request.tried) % len(LINES)]}


def propose_idly(request: ProposalRequest) -> dict[str, str]:
    """A line that no persona heeds, another one each time."""
    return {"part": "todos_tools", "line": f"Remember line {len(request.tried)}."}


def small_search(count: int = 40, model: Any = CHATTY, **settings: Any) -> Search:
    given: dict[str, Any] = {
        "agent": {"tools": [check_line], "policy": TwoRounds()},
        "primary": was_called,
        "propose": propose,
        "proposals": 4,
        "folder": False,
    }
    return optimise("off", rows(count), model, **{**given, **settings})


def searched(search: Search) -> Any:
    return search.run_sync(search.design(), show=False)


def draw_values(patch: pytest.MonkeyPatch, value: Callable[[str, str, random.Random], Any]) -> list[str]:
    """Draw the values of cells in place of runs, the same for the same guidance and seed; return the cells that are drawn."""
    drawn: list[str] = []

    async def run(self: InKernel, job: Job) -> CellRun:
        named = self.work.fields_of(job.cell, job.model_name)
        drawn.append(job.cell.key)
        agent: Any = self.work.variants[job.cell.variant].work
        chance = random.Random(f"{agent.guidance_texts.version} {named['seed']}")
        made = value(named["variant"], named["task"], chance)
        digest = str(chance.random())
        values = {named["primary"]: made}
        return CellRun(Row(**named, status="completed", end="completed", values=values, cost=0.0, digest=digest), None)

    patch.setattr(InKernel, "run", run)
    return drawn
