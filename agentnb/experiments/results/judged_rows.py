"""Adds judges' verdicts to the rows of their runs."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from msgspec.structs import replace

from agentnb.detect.run import Run
from agentnb.experiments.planning.experiment_checks import Check
from agentnb.experiments.planning.experiment_tasks import prompt_of
from agentnb.experiments.planning.judge_verdicts import AskedCheck, Bench, Verdicts
from agentnb.experiments.results.rows import Row
from agentnb.interchange.files import RunSource, folder_of
from agentnb.runtime.budget import Spending
from agentnb.runtime.threads import LoopThread
from agentnb.store.check_values import WHOLE
from agentnb.store.store import Store

T = TypeVar("T")
MAX_JUDGES_AT_A_TIME = 4
"""Maximum number of recorded runs judged concurrently."""
UNCORRECTED = "a model's verdicts decide, and their errors are not corrected: compare(..., quality=judge.quality(labels))"
"""Note on estimates that depend on the verdicts of a judge with unknown error rates."""


async def add_verdicts(
    row: Row, run: Run, checks: Iterable[Check], bench: Bench, columns: Mapping[str, Any] | None = None
) -> Row:
    """Return the row with the verdicts of checks that ask a model.

    ``columns``: the row of the task, with the prompt for the judge; if omitted, the judge gets the run's prompt, which a
    variant may have changed.

    No model is asked about a run that was cut short or lost, since its ending decides the value.
    """
    values, errors, judged = {**row.values}, {**row.check_errors}, {**row.judged}
    cost: float | None = row.judging_cost
    for check in checks:
        if not isinstance(check.function, AskedCheck):
            continue
        if row.end not in WHOLE:
            values[check.name] = check.settle(run, None, row.end)
            continue
        verdict, was_kept = await check.function.ask(run, bench, run.prompt if columns is None else prompt_of(columns, None))
        values[check.name], judged[check.name] = verdict.value, verdict.run_id
        if verdict.error:
            errors[check.name] = verdict.error
        if not was_kept:
            cost = None if cost is None or verdict.cost is None else cost + verdict.cost
    return replace(row, values=values, check_errors=errors, judged=judged, judging_cost=cost)


def judge_recorded(rows: Sequence[Row], runs: Sequence[Run], checks: Sequence[Check], bench: Bench) -> list[Row]:
    """Return the rows of recorded runs with the verdicts of judges; blocks until all are done."""
    thread = LoopThread()
    try:
        calls = [partial(add_verdicts, row, run, checks, bench) for row, run in zip(rows, runs, strict=True)]
        return thread.submit(lambda: gather_limited(calls)).result()
    finally:
        thread.close()


async def gather_limited(calls: Iterable[Callable[[], Awaitable[T]]]) -> list[T]:
    """Make the calls, only a few at a time, and return their results in order."""
    places = asyncio.Semaphore(MAX_JUDGES_AT_A_TIME)

    async def make(call: Callable[[], Awaitable[T]]) -> T:
        async with places:
            return await call()

    return await asyncio.gather(*map(make, calls))


def bench_of(source: RunSource, spending: Spending | None = None) -> Bench:
    """Return the bench used by judges of recorded runs. Verdicts are stored next to the runs, otherwise in ``.agentnb``."""
    return Bench(Verdicts(folder_of_source(source) or Path.cwd() / ".agentnb"), spending)


def folder_of_source(source: RunSource) -> Path | None:
    """Return the folder of a source, or None for runs and single files."""
    return folder_of(source) if isinstance(source, Store | str | Path) else None
