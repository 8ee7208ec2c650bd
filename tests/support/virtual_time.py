"""An event loop whose clock jumps: what would take time takes none, and runs can be begun on it."""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from functools import partial
from typing import Any

from agentnb.runtime.threads import LoopThread


class _Jumping(selectors.DefaultSelector):
    """Waits a moment for what threads have to say, and lets the rest of the time pass at once."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0

    def select(self, timeout: float | None = None) -> list[Any]:
        events = super().select(timeout if timeout is None or timeout <= 0 else 0.0005)
        if not events and timeout is not None and timeout > 0:
            self.now += timeout
        return events


class VirtualTimeLoop(asyncio.SelectorEventLoop):
    """An event loop for which time passes when nothing else is to be done."""

    def __init__(self) -> None:
        self._clock = _Jumping()
        super().__init__(self._clock)
        self.forgotten: list[BaseException] = []
        """Errors that nobody looked at, but for the interrupts that a test raises on purpose."""
        self.set_exception_handler(lambda _, context: self._note(context.get("exception")))

    def time(self) -> float:
        return self._clock.now

    def _note(self, error: BaseException | None) -> None:
        if error is not None and not isinstance(error, KeyboardInterrupt | asyncio.CancelledError):
            self.forgotten.append(error)


class OnThisLoop(LoopThread):
    """Runs are begun on the loop that is running, instead of on one in a thread of its own."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._on = loop

    def submit(self, make: Callable[[], Coroutine[Any, Any, Any]]) -> Future[Any]:
        future: Future[Any] = Future()
        task = self._on.create_task(make())
        task.add_done_callback(partial(_hand_over, future))
        return future


def _hand_over(future: Future[Any], task: asyncio.Task[Any]) -> None:
    if task.cancelled():
        future.set_exception(asyncio.CancelledError())
    elif (error := task.exception()) is not None:
        future.set_exception(error)
    else:
        future.set_result(task.result())
