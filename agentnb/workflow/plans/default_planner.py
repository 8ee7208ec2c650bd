"""The task file of agentnb's own planner and executor."""

from __future__ import annotations

import re
from pathlib import Path

from agentnb.errors import SettingsError

PLANNER = "planner"
"""Name of the planner in shells and logs."""
_FILE = Path(__file__).with_name("planner.yaml")


def planner_text(max_plan_iterations: int | None = None) -> str:
    """Return the text of the task file, with this maximum number of plans if given."""
    text = _FILE.read_text(encoding="utf-8")
    if max_plan_iterations is None:
        return text
    if type(max_plan_iterations) is not int or max_plan_iterations < 1:
        raise SettingsError(f"max_plan_iterations={max_plan_iterations!r} is not a whole number of at least 1")
    return re.sub(r"(?m)^max_plan_iterations: \d+", f"max_plan_iterations: {max_plan_iterations}", text)
