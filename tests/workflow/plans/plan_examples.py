"""The example plans, their tools, and runs of task files whose planner has replies instead of a model."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML
from task_examples import ScriptedTools, run_of

from agentnb import Run, Store, Workflow
from agentnb.core.request import ToolSpec
from agentnb.models.scripted import ScriptedModel

PLANS = Path(__file__).parents[1] / "examples" / "plans"
SPECS = [ToolSpec(**spec) for spec in json.loads((PLANS / "tools.json").read_text(encoding="utf-8"))]


def tides_fetch(station: str, day: str = "") -> str:
    """Fetch the tide table of a station.

    Args:
        station: Name of the harbour
    """
    if station == "vigo":
        raise ValueError("no such station")
    return json.dumps({"station": station, "rows": [["04:12", 6.1]]})


def tables_compare(left: list[Any], right: list[Any], options: dict[str, Any] | None = None) -> str:
    """Compare two tide tables."""
    return f"{left} and {right}"


def told(name: str) -> Any:
    """Return the expected data from a file beside the example plans."""
    return YAML(typ="safe", pure=True).load((PLANS / name).read_text(encoding="utf-8"))


def steps(*written: Mapping[str, Any], **more: Any) -> str:
    """Return a planner's reply: a plan with these steps."""
    return json.dumps({"steps": [{"type": "tool", **one} for one in written], **more})


def fetch(station: str, **more: Any) -> dict[str, Any]:
    """Return a step that fetches the table of a station."""
    return {"name": "tides_fetch", "args": {"station": station}, **more}


def planned(
    replies: Iterable[Any], tools: Iterable[Any] = (tides_fetch,), store: Store | None = None, **settings: Any
) -> tuple[Run, ScriptedModel]:
    """Run the planner with these replies; return the run, failed or not, and its model."""
    model = ScriptedModel([*replies])
    inputs = {"query": "Which tides?", **settings.pop("inputs", {})}
    workflow = settings.pop("workflow", None) or Workflow.planner(tools)
    return run_of(workflow, inputs, store, model=model, **settings), model


def results(run: Run) -> list[tuple[str, Any, Any]]:
    """Return name, result and error of each result."""
    return [(result["name"], result["result"], result["error"]) for result in run.variables["results"]]


__all__ = ["ScriptedTools"]
