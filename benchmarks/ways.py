"""Counts of the files of agentnb that a step passes, and of its changes from one to another.

Usage: python benchmarks/ways.py

Counted with `sys.setprofile` in one scripted run, from the end of the step before until the tool's own function begins. The
fold of events (`core/run`) is left out: it is the same for whatever logs them. A stay is a row of calls into one file.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import agentnb
from agentnb import Plan, Workflow
from agentnb.core.log.work_events import StepFinished

ROOT = f"{Path(agentnb.__file__).parent}/"
FOLD = f"{ROOT}core/run/"
WORKFLOW = "workflow: [{type: tool, name: add, args: {x: 1}}, {id: second, type: tool, name: add, args: {x: 2}}]\n"
TASKS = "stage: {first: {action: add, input: {x: 1}}, second: {action: add, input: {x: 2}}}\n"
PLAN = "steps: [{type: tool, name: add, args: {x: 1}}, {type: tool, name: add, args: {x: 2}}]\n"
FORMS: dict[str, Callable[[Any], Any]] = {
    "a workflow": lambda tool: Workflow.from_yaml(WORKFLOW, tools=[tool]),
    "a task file": lambda tool: Workflow.from_yaml(TASKS, tools=[tool]),
    "a plan": lambda tool: Plan.read(PLAN),
}


async def way(make: Callable[[Any], Any]) -> list[str]:
    """Return the files that the second step of a run enters until its tool runs, one for each call into one."""
    entered: list[str] = []
    begin = 0
    found: list[str] = []

    async def add(x: int) -> int:
        """Add one."""
        found[:] = entered[begin:]
        return x + 1

    def note(frame: FrameType, event: str, _: object) -> None:
        if event == "call" and (name := frame.f_code.co_filename).startswith(ROOT) and not name.startswith(FOLD):
            entered.append(name)

    def watch(event: Any) -> None:
        nonlocal begin
        if isinstance(event, StepFinished):
            begin = len(entered)

    given = {"tools": [add]} if make is FORMS["a plan"] else {}
    await make(add).run(**given)  # what is imported and cached at first is no part of it
    sys.setprofile(note)
    try:
        await make(add).run(watch=watch, **given)
    finally:
        sys.setprofile(None)
    return found


def count(make: Callable[[Any], Any]) -> tuple[int, int]:
    """Return the number of files, and of stays."""
    entered = asyncio.run(way(make))
    return len(set(entered)), sum(before != after for before, after in zip(["", *entered], entered, strict=False))


def main() -> None:
    """Print a line for each form."""
    for name, make in FORMS.items():
        files, stays = count(make)
        print(f"a tool step of {name}: {files} files, {stays} stays")


if __name__ == "__main__":
    main()
