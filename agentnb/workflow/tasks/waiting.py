"""Waiting for several tasks at once, until all have ended or as soon as it is decided."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any

from agentnb.errors import StepFailed
from agentnb.runtime.run_end import Suspended
from agentnb.runtime.steps.side_by_side import NOT_NEEDED, Running, SideBySide
from agentnb.workflow.tasks.spec import Mode


async def wait_for(tasks: Iterable[Running], mode: Mode, side_by_side: SideBySide) -> None:
    """Wait as the mode says, and cancel and await what is then still running.

    ``all``: until all have ended; raises the first failure, in the order of the tasks. ``anyError``: raises a failure at once.
    ``first``: until one has ended, well or not. What is no failure of a step is raised at once, in every mode; a run that is
    being suspended waits for the others, as their work would be lost.
    """
    known = tuple(tasks)
    left: set[Running] = set(known)
    reason = NOT_NEEDED
    try:
        while left:
            done, left = await asyncio.wait(left, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                _raise_at_once(task, mode)
            if mode == "first" and any(has_ended(task) for task in done):
                return
    except BaseException as error:
        reason = side_by_side.reason_after(error)
        raise
    finally:
        await side_by_side.cancel((task for task in known if task in left), reason)  # in their order
    for task in known:
        failure = task.exception() if task.done() and not task.cancelled() else None
        if failure is not None:
            raise failure


def has_ended(task: Running) -> bool:
    """Return whether a task has ended by itself, well or not."""
    return task.done() and not task.cancelled() and not isinstance(task.exception(), Suspended)


def result_of(task: Running) -> Any:
    """Return the result of a task; None of one that failed, was cancelled, or was left behind."""
    return None if not task.done() or task.cancelled() or task.exception() is not None else task.result()


def _raise_at_once(task: Running, mode: Mode) -> None:
    error = None if task.cancelled() else task.exception()
    if error is None or isinstance(error, Suspended):
        return
    if mode == "anyError" or not isinstance(error, StepFailed):
        raise error
