"""Steps side by side: those that nobody waits for any more are cancelled, and it is known why."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Sequence
from contextlib import suppress
from contextvars import copy_context
from typing import Any, Literal
from weakref import WeakKeyDictionary, WeakMethod

from agentnb.errors import StepFailed
from agentnb.runtime.calls.dispatch import PATIENCE_WITH_PART
from agentnb.runtime.run_end import Suspended
from agentnb.runtime.steps.step_failures import FailedStep
from agentnb.runtime.threads import time_limit

Running = asyncio.Task[Any]
Work = Callable[[Any], Coroutine[Any, Any, Any]]
"""The work on one of several items."""
Mode = Literal["all", "first", "anyError"]
"""The end of the wait for several tasks."""
CLEANUP_SECONDS = 10.0
"""Time that cancelled steps get to end, as they may put things in order."""
MAX_TURNS = 20
"""Turns of the event loop in which a cancelled step usually ends."""
SIBLING_FAILED = "a step beside it failed"
NOT_NEEDED = "it was not needed any more"
"""Why a step is cancelled although its run goes on: it is over, also for a process that recovers the run."""


class SideBySide:
    """The tasks of one run that were cancelled, each with the reason."""

    def __init__(self, note_left: WeakMethod[Callable[[], None]]) -> None:
        """``note_left`` is called when tasks are left behind that ignore their cancellation."""
        self._note_left = note_left
        self._reasons: WeakKeyDictionary[Running, str] = WeakKeyDictionary()

    @property
    def reason(self) -> str:
        """Why the running task was cancelled; empty if with its run."""
        task = None if asyncio._get_running_loop() is None else asyncio.current_task()  # none for a coroutine that is garbage
        return "" if task is None else self._reasons.get(task, "")

    def reason_after(self, error: BaseException) -> str:
        """Return why tasks are cancelled that run beside one with this error, or within one that was cancelled."""
        return SIBLING_FAILED if isinstance(error, FailedStep) else self.reason

    async def cancel(self, tasks: Iterable[Running], reason: str) -> None:
        """Cancel tasks, and give them a moment to end; one that ignores it is left behind, and holds no run."""
        pending = tuple(tasks)
        for task in pending:
            if reason:
                self._reasons[task] = reason
            task.cancel()
            task.add_done_callback(_retrieve)
        for _ in range(MAX_TURNS):
            if all(task.done() for task in pending):
                return
            await asyncio.sleep(0)  # a timer could change the order of others that end at the same time
        if (await asyncio.wait(pending, timeout=CLEANUP_SECONDS))[1] and (note := self._note_left()):
            note()

    async def within(self, limit: asyncio.Timeout, work: Coroutine[Any, Any, Any]) -> Any:
        """Return the output of work within its time limit, which stands still while a plain function waits for its turn.

        Work that ignores its cancellation is left behind: its outcome changes nothing in the run.
        """
        outer = time_limit.set(limit)
        task = asyncio.ensure_future(work)  # of its own, so that this one can go on without it
        time_limit.reset(outer)
        try:
            async with limit:
                await asyncio.wait((task,))
        finally:
            if not task.done():
                self._reasons[task] = self.reason
                task.cancel()
                task.add_done_callback(_retrieve)
                await asyncio.wait((task,), timeout=PATIENCE_WITH_PART)
        return task.result()

    async def all_or_none(self, work: Work, items: Sequence[Any], most: int | None = None) -> None:
        """Work on all, ``most`` at once; if the work on one raises, cancel and await the others, and raise the first error."""
        if len(items) == 1:  # no task of its own: for a step that calls a tool that is a third of what it takes
            await work(items[0])
        else:
            await self.wait_for(begun(work, items, most, "anyError"), "anyError")

    async def wait_for(self, tasks: Iterable[Running], mode: Mode) -> None:
        """Wait as the mode says, and cancel and await what is then still running.

        ``all``: until all have ended; raises the first failure, in the order of the tasks. ``anyError``: raises a failure at
        once. ``first``: until one has ended, well or not. What is no failure of a step is raised at once, in every mode; a run
        that is being suspended waits for the others, as their work would be lost.
        """
        ordered, ended, reason = tuple(tasks), list[Running](), NOT_NEEDED
        remaining: set[Running] = set(ordered)
        context = copy_context()  # one for all, which are as many as there are tasks
        for task in ordered:  # in the order in which they end, also within one turn of the loop
            task.add_done_callback(ended.append, context=context)
        until = asyncio.FIRST_COMPLETED if mode == "first" else asyncio.FIRST_EXCEPTION
        try:
            while remaining:
                _, remaining = await asyncio.wait(remaining, return_when=until)
                for task in ended:
                    _raise_at_once(task, mode)
                if mode == "first" and any(map(has_ended, ended)):
                    return
                ended.clear()
        except BaseException as error:
            reason = self.reason_after(error)
            raise
        finally:
            await self.cancel((task for task in ordered if task in remaining), reason)  # in their order
        for task in ordered:
            failure = None if task.cancelled() else task.exception()
            if failure is not None:
                raise failure


def begun(work: Work, items: Sequence[Any], most: int | None = None, mode: Mode = "all") -> list[Running]:
    """Begin the work on all items, on each as soon as it is free, ``most`` at once.

    When what is left is cancelled, because a wait in this mode is over, no further work begins.
    """
    free = None if most is None or most >= len(items) else asyncio.Semaphore(most)
    is_over = False

    async def in_turn(item: Any) -> Any:
        nonlocal is_over
        assert free is not None, "else there are no turns"
        async with free:
            if is_over:
                raise asyncio.CancelledError
            try:
                output = await work(item)
            except (Suspended, asyncio.CancelledError):  # which end no wait
                raise
            except BaseException:
                is_over = mode != "all"
                raise
            is_over = is_over or mode == "first"
            return output

    return [asyncio.ensure_future(work(item) if free is None else in_turn(item)) for item in items]


def has_ended(task: Running) -> bool:
    """Return whether a task has ended by itself, well or not."""
    return task.done() and not task.cancelled() and not isinstance(task.exception(), Suspended)


def _raise_at_once(task: Running, mode: Mode) -> None:
    error = None if task.cancelled() else task.exception()
    if error is not None and not isinstance(error, Suspended) and (mode == "anyError" or not isinstance(error, StepFailed)):
        raise error


def _retrieve(task: Running) -> None:
    """Take the outcome of a task that was left behind, so that asyncio does not report it."""
    with suppress(BaseException):
        task.result()
