"""Concurrent steps: those no longer awaited are cancelled, and the reason is recorded."""

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
"""Processes one item of several."""
Mode = Literal["all", "first", "anyError"]
"""When to stop waiting for several tasks."""
CLEANUP_SECONDS = 10.0
"""Seconds that cancelled steps have to clean up."""
MAX_TURNS = 20
"""Number of turns of the event loop within which a cancelled step usually ends."""
SIBLING_FAILED = "a parallel step failed"
NOT_NEEDED = "it was no longer needed"
"""Reason for cancelling a step while its run continues. Even a process that recovers the run treats the step as ended."""


class SideBySide:
    """The cancelled tasks of one run, and the reasons."""

    def __init__(self, note_left: WeakMethod[Callable[[], None]]) -> None:
        """``note_left``: called when tasks that ignore their cancellation are abandoned."""
        self._note_left = note_left
        self._reasons: WeakKeyDictionary[Running, str] = WeakKeyDictionary()

    @property
    def reason(self) -> str:
        """The reason why the running task was cancelled; empty if its run was cancelled."""
        task = None if asyncio._get_running_loop() is None else asyncio.current_task()  # none for a coroutine that is garbage
        return "" if task is None else self._reasons.get(task, "")

    def reason_after(self, error: BaseException) -> str:
        """Return the reason for cancelling the siblings of a task with this error, or the subtasks of a cancelled task."""
        return SIBLING_FAILED if isinstance(error, FailedStep) else self.reason

    async def cancel(self, tasks: Iterable[Running], reason: str) -> None:
        """Cancel tasks and give them a moment to end; tasks that ignore the cancellation are abandoned."""
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
        """Return the output of work within its time limit, which is suspended while a plain function waits for its
        turn.

        Work that ignores its cancellation is abandoned, and its outcome has no effect on the run.
        """
        outer = time_limit.set(limit)
        task = asyncio.ensure_future(work)  # a separate task, so that the current one can continue without it
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
        """Process all items, up to ``most`` concurrently. On an error, cancel and await the others, then raise the
        first error.
        """
        if len(items) == 1:  # without a task: it would take half as long again for a step that calls a tool
            await work(items[0])
        else:
            await self.wait_for(start_all(work, items, most, "anyError"), "anyError")

    async def wait_for(self, tasks: Iterable[Running], mode: Mode) -> None:
        """Wait as the mode requires, then cancel and await the remaining tasks.

        ``all``: until all have ended; raises the first failure, in task order. ``anyError``: as ``all``, but raises a
        failure at once. ``first``: until one has ended, successfully or not. In every mode, errors other than step
        failures are raised at once; a suspended step lets the others finish, since their work would otherwise be
        lost.
        """
        ordered, ended, reason = tuple(tasks), list[Running](), NOT_NEEDED
        remaining: set[Running] = set(ordered)
        context = copy_context()  # one for all tasks, rather than one for each
        for task in ordered:  # in the order of their ends, also within one turn of the loop
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
            await self.cancel((task for task in ordered if task in remaining), reason)  # in the original order
        for task in ordered:
            failure = None if task.cancelled() else task.exception()
            if failure is not None:
                raise failure


def start_all(work: Work, items: Sequence[Any], most: int | None = None, mode: Mode = "all") -> list[Running]:
    """Start the work on all items, up to ``most`` concurrently.

    Once a wait in this mode is over and the remaining tasks are cancelled, no further work begins.
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
            except (Suspended, asyncio.CancelledError):  # these end no wait
                raise
            except BaseException:
                is_over = mode != "all"
                raise
            is_over = is_over or mode == "first"
            return output

    return [asyncio.ensure_future(work(item) if free is None else in_turn(item)) for item in items]


def has_ended(task: Running) -> bool:
    """Return whether a task has ended on its own, successfully or not."""
    return task.done() and not task.cancelled() and not isinstance(task.exception(), Suspended)


def _raise_at_once(task: Running, mode: Mode) -> None:
    error = None if task.cancelled() else task.exception()
    if error is not None and not isinstance(error, Suspended) and (mode == "anyError" or not isinstance(error, StepFailed)):
        raise error


def _retrieve(task: Running) -> None:
    """Retrieve the outcome of an abandoned task, so that asyncio does not report it as never retrieved."""
    with suppress(BaseException):
        task.result()
