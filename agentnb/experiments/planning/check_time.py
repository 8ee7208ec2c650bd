"""The time limit for checks: users' checks run in threads, and a check that does not return is abandoned."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from concurrent.futures import Future, wait
from dataclasses import replace
from functools import partial, update_wrapper
from time import monotonic
from typing import Any

from agentnb.detect.run import Run
from agentnb.experiments.planning.experiment_checks import Check, value_of
from agentnb.runtime.threads import TICK, AwakeForInterrupts, Outcome, attempt, in_worker
from agentnb.runtime.workers.worker_calls import WorkerCall, call_in_thread


class TooSlow(TimeoutError):
    """A check exceeded the time limit."""


def run_check_here(check: Check, run: Run, row: Mapping[str, Any], seconds: float) -> Outcome:
    """Run a check, blocking this thread; an interrupt ends both the wait and the check."""
    call: WorkerCall = WorkerCall(partial(value_of, check, run, row))
    outcome: Future[Outcome] = Future()
    in_worker(lambda: outcome.set_result(call.run()))
    latest = monotonic() + seconds
    try:
        while not outcome.done() and monotonic() < latest:
            wait([outcome], timeout=min(TICK, seconds))
    finally:
        call.interrupt()
    return outcome.result() if outcome.done() else _too_slow(seconds)


async def run_checks(checks: Iterable[Check], run: Run, row: Mapping[str, Any], seconds: float) -> list[Check]:
    """Run the user's checks on a run, and return all checks, replacing the functions that were run by their outcomes.

    A cancellation ends the active check.
    """
    return [check if check.is_shipped else await _run_check(check, run, row, seconds) for check in checks]


async def _run_check(check: Check, run: Run, row: Mapping[str, Any], seconds: float) -> Check:
    function = partial(attempt, partial(value_of, check, run, row))
    try:
        with AwakeForInterrupts():
            async with asyncio.timeout(seconds):
                outcome = await call_in_thread(function)
    except TimeoutError:
        outcome = _too_slow(seconds)
    return replace(check, function=update_wrapper(lambda *_: outcome.get(), check.function))


def _too_slow(seconds: float) -> Outcome:
    return Outcome(None, TooSlow(f"it took longer than {seconds:g} s"))
