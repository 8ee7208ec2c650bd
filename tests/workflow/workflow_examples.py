"""The example files of the form and their scripted runs."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML
from virtual_time import VirtualTimeLoop

from agentnb import Run, Store, Workflow
from agentnb.core.log.work_events import StepAttempted, StepStarted
from agentnb.errors import WorkflowError

HERE = Path(__file__).parent / "examples"
RUNS = sorted(path.name for path in HERE.glob("*.run.yaml"))
BLOCKS = ("parallel", "map")


def script(name: str) -> dict[str, Any]:
    """Return one scripted run of an example."""
    return dict(YAML(typ="safe", pure=True).load((HERE / name).read_text(encoding="utf-8")))


def played(workflow: Workflow, prompt: str, replies: dict[str, Any], store: Store | None = None, **settings: Any) -> Run:
    """Run to the end, failed or not, on virtual time."""

    async def run() -> Run:
        try:
            return await workflow.run(prompt, replies=replies, store=store, show=False, **settings)
        except WorkflowError as error:
            assert isinstance(error.run, Run)
            return error.run

    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        return runner.run(run())


def ran(run: Run) -> list[str]:
    """Return the started steps in order, without attempts and blocks."""
    starts = [event for event in run.events if isinstance(event, StepStarted) and event.attempt == 1]
    return [event.step for event in starts if event.step_kind not in BLOCKS]


def nested(run: Run, store: Store, path: str) -> list[Run]:
    """Return the nested runs of a step, one per execution."""
    ids = [event.nested for event in run.events if isinstance(event, StepStarted) and event.step == path]
    return [store.load(run_id) for run_id in ids]


def waits(run: Run) -> dict[str, list[float]]:
    """Return the seconds before each further attempt, by step."""
    found: dict[str, list[float]] = {}
    for event in run.events:
        if isinstance(event, StepAttempted):
            found.setdefault(event.step, []).append(event.wait)
    return found
