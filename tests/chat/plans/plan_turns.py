"""Turns of a chat whose model makes plans: their tools, plans and agents."""

from __future__ import annotations

import json
from typing import Any

from agentnb import Agent, ContextType, Run, ToolCall
from agentnb.chat.plans.plans_extension import Plans
from agentnb.models.scripted import ScriptedModel

APPROVED = '{"verdict": "approved", "notes": "Read-only, in a sound order."}'


async def tides_fetch(station: str) -> str:
    """Fetch the tide table of a station."""
    if station == "vigo":
        raise ValueError("no such station")
    return f"{station}: 05:10, 17:30"


def tables_compare(left: str, right: str) -> str:
    """Compare two tables."""
    return f"{left} and {right}"


def step(number: int, station: str = "", *depends: int, **fields: Any) -> dict[str, Any]:
    """A step of a plan: a call for a station, else a reply."""
    called = {"tools": ["tides_fetch"], "args": {"station": station}} if station else {"tools": []}
    about = {"stepNumber": number, "type": "research", "description": f"Step {number}", "dependsOn": [*depends]}
    return {**about, "executorRequired": False, **called, **fields}


def plan(*steps: dict[str, Any]) -> str:
    """A planner's reply."""
    return json.dumps({"steps": [*steps], "reasoning": "The comparison needs both."})


TWO = plan(step(1, "brest"), step(2, "cork"))


def call(call_id: str = "call_1", **arguments: Any) -> ToolCall:
    return ToolCall("agent_create_plan", {"objective": "Compare the tides of Brest and Cork", **arguments}, call_id)


def agent(*replies: Any, context: str = "project", plans: dict[str, Any] | None = None, **settings: Any) -> Agent:
    """An agent in a context, which may make plans."""
    settings = {"tools": [tides_fetch, tables_compare], "todos": False, "instructions": False, **settings}
    made = Agent(ScriptedModel([*replies]), extensions=[Plans(**(plans or {}))], **settings)
    return ContextType.named(context).apply(made, "project-harbours")


def result_of(run: Run, place: int = -1) -> dict[str, Any]:
    """The result of a call of the tool."""
    found = [part for round in run.rounds for part in round.results if part.name == "agent_create_plan"]
    return dict(json.loads(found[place].text))


def error_of(run: Run) -> tuple[str | None, str]:
    """The error of the last call of the tool."""
    found = [part for round in run.rounds for part in round.results if part.name == "agent_create_plan"]
    return found[-1].error_code, found[-1].text
