"""Runs of the planner whose replies are given: with steps that succeed, fail, are dropped, blocked, not run, and that ask."""

from __future__ import annotations

import json
from typing import Any

from agentnb import Run, Workflow
from agentnb.errors import WorkflowError
from agentnb.models.scripted import ScriptedModel

ASKED_DAY = {
    "message": "Which day?",
    "schema": {"type": "object", "properties": {"day": {"type": "string"}}, "required": ["day"]},
}


def tides_fetch(station: str) -> str:
    """Fetch the tide table of a station."""
    if station == "vigo":
        raise ValueError("no such <station>")
    return json.dumps({"station": station, "rows": [["04:12", 6.1]]})


def plan_of(*steps: dict[str, Any], **more: Any) -> str:
    """A planner's reply: a plan with these steps."""
    return json.dumps({"steps": [{"type": "tool", **one} for one in steps], **more})


def fetch(station: str, **more: Any) -> dict[str, Any]:
    """A step that fetches the table of a station."""
    return {"name": "tides_fetch", "args": {"station": station}, **more}


HARBOURS = plan_of(
    fetch("brest", reason="The <i>reference</i>"),
    fetch("brest"),
    fetch("vigo", retries=1),
    {"type": "noop"},
    fetch("cork"),
    intention="Fetch the **tables**",
)
ASKING = plan_of({"type": "elicitation", "elicitation": ASKED_DAY}, fetch("cadiz"), intention="Ask first")
LACKING = plan_of(fetch("brest", day="x"), {"name": "tides_fetch", "args": {}})
FINAL = "The tide is at 04:12."


def answered(question: Any) -> dict[str, str]:
    """Answers of the person."""
    return dict.fromkeys(question.schema["properties"], "Monday")


def planner_run(*replies: str, **settings: Any) -> Run:
    """The run of the planner with these replies, also if it failed."""
    settings = {"answer": answered, "show": False, **settings}
    try:
        return Workflow.planner([tides_fetch]).run_sync("Which tides?", model=ScriptedModel([*replies]), **settings)
    except WorkflowError as error:
        assert error.run is not None
        return error.run


def blocked_run() -> Run:
    """A run that fetches the same again and again, and aborts."""
    same = plan_of(fetch("brest"))
    last = plan_of(
        fetch("brest"), fetch("$step[0].rows"), {"type": "noop"}, {"type": "abort", "reason": "No <more>"}, fetch("cork")
    )
    return planner_run(same, same, same, last)
