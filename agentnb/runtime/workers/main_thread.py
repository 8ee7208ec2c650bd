"""Runs a tool on the main thread when no code there waits for the tool's run, such as between two cells of a notebook."""

from __future__ import annotations

import asyncio
import signal
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from agentnb.core.inbox import INTERRUPTED, current_inbox
from agentnb.errors import ToolFailed
from agentnb.runtime.threads import TICK, PendingOutcome
from agentnb.runtime.workers.foreground import Foreground
from agentnb.tools.tool import Schedule

WAIT = 60.0
"""Maximum seconds that a call waits for the main thread."""
BUSY = (
    "The main thread is busy: a cell has been running for {:g} seconds",
    "Call it again later, or continue without it",
)


async def call_on_main_thread(function: Callable[[], Any], schedule: Schedule, *, wait: float = WAIT) -> Any:
    """Run a function on the main thread as soon as no cell runs there; an interrupt stops the run, as it does with
    any plain tool.

    Raises `ToolFailed` if the main thread is still busy after ``wait`` seconds.
    """
    foreground, inbox = Foreground(), current_inbox.get()

    def stop() -> None:
        if inbox is not None:
            inbox.put("stop", INTERRUPTED)

    if threading.current_thread() is threading.main_thread():  # the run's event loop is on the main thread
        outcome = foreground.run_here(function, lambda: None)
        if isinstance(outcome.error, KeyboardInterrupt):  # raised in a task, it would end the event loop of the kernel
            _interrupt_cell()
            await asyncio.sleep(TICK)  # raises here if that cancels the run
            stop()
            raise asyncio.CancelledError("The run was stopped")
        return outcome.get()
    loop, noted, answer = asyncio.get_running_loop(), asyncio.Event(), PendingOutcome()
    begun = threading.Event()
    answer.future.add_done_callback(lambda _: noted.set())  # also if the code never began

    def work() -> Any:
        begun.set()
        loop.call_soon_threadsafe(noted.set)
        return function()

    schedule(lambda: answer.set(foreground.run_here(work, stop)))  # in the context of the call
    try:
        with suppress(TimeoutError):
            async with asyncio.timeout(wait):
                await noted.wait()
        if not noted.is_set():
            foreground.refuse_tools()
            if not (foreground.is_in_tool or begun.is_set()):  # else it began at the last moment
                raise ToolFailed(BUSY[0].format(wait), BUSY[1])
        return (await answer.future).get()
    except asyncio.CancelledError:
        foreground.end_tool()
        raise


def _interrupt_cell() -> None:
    """Also interrupt the code that awaits the run on this event loop, if the loop's owner handles interrupts there."""
    handler = signal.getsignal(signal.SIGINT)
    raises = handler is signal.default_int_handler or isinstance(getattr(handler, "__self__", None), Foreground)
    if callable(handler) and not raises:
        signal.raise_signal(signal.SIGINT)
