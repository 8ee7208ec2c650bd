"""Runs with each kind of end and many failures."""

from __future__ import annotations

from functools import cache, partial
from typing import Any

from planned_runs import ASKING, FINAL, HARBOURS, LACKING, blocked_run, planner_run
from scripted_runs import play

from agentnb import Run, ToolCall

ANSWER = "**Gentoo** are the heaviest.\n\n```python\ndef mean(frame):\n    return frame['mass'].mean()  # grams\n```"
TODOS = [{"id": n, "title": f"Step {n}", "description": "A step", "status": "not-started"} for n in (1, 2, 3)]
PLAN: list[Any] = ["First a list.", ToolCall("todo_operations", {"operation": "write", "todoList": TODOS})]


def compare(column: str) -> list[dict[str, Any]]:
    """Compare."""
    if column.startswith("no"):
        raise ValueError(f"no column {column!r}; there are body_mass_g, flipper_length_mm and bill_length_mm")
    return [{"species": "Adelie", "mean": 3700.7}, {"species": "Gentoo", "mean": 5076.0}]


_run = partial(play, tools=[compare], prompt="Which is the heaviest?")


@cache
def finished_runs() -> dict[str, Run]:
    """Return the runs by their end."""
    failing = [ToolCall("compare", {"column": f"no{n}"}) for n in range(6)]
    same = [ToolCall("compare", {"column": "mass"}) for _ in range(4)]
    done = [
        ToolCall("todo_operations", {"operation": "update", "todoUpdates": [{"id": n, "status": status}]})
        for n in (1, 2, 3)
        for status in ("in-progress", "completed")
    ]
    return {
        "six failed calls": _run(PLAN, *failing, done, ANSWER),
        "skipped calls": _run(*same, "Done."),
        "guidance ignored": _run(PLAN, "I will.", "Soon.", "Later.", *["Well."] * 8),
        "limit": _run(PLAN, *failing, max_rounds=6),
        "plans": planner_run(HARBOURS, ASKING, LACKING, FINAL),
        "a plan that aborts": blocked_run(),
        "failed": _run(PLAN, *failing[:2], RuntimeError("The provider refused the key (401)")),
    }
