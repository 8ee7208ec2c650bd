"""Time that tests do not wait for: an event loop whose clock jumps when nothing is to be done, and a clock to put forward."""

from __future__ import annotations

import asyncio
import selectors
import threading
import time
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from contextlib import suppress
from functools import partial
from typing import Any

from agentnb.runtime.threads import LoopThread

TURNS = 20
"""Turns of a loop in which it does what it can do without waiting."""


# One loop, and nothing beside it


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

    async def shutdown_default_executor(self, timeout: float | None = None) -> None:
        """Wait for the threads without a limit: time that jumps would be over before they are."""
        await super().shutdown_default_executor()

    def _note(self, error: BaseException | None) -> None:
        if error is not None and not isinstance(error, KeyboardInterrupt | asyncio.CancelledError):
            self.forgotten.append(error)


def by_itself(work: Any) -> Any:
    """Run the coroutine on a loop of its own, without waiting."""
    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        return runner.run(work)


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


# Real loops, whose clock can be put forward


class SkippedClock:
    """The clock of every event loop that is made meanwhile: real time, and what is skipped.

    For runs in threads of their own and for servers on this machine, where a loop cannot tell whether anybody is still busy.
    """

    def __init__(self) -> None:
        self.skipped = 0.0
        self._loops: list[_SkippingLoop] = []

    def new_event_loop(self) -> asyncio.AbstractEventLoop:
        loop = _SkippingLoop(self)
        self._loops.append(loop)
        return loop

    def perf_counter(self) -> float:
        return time.perf_counter() + self.skipped

    def skip(self, seconds: float, unless: Callable[[], bool] = lambda: False) -> None:
        """Let so much time pass at once, ``unless`` this holds by then.

        Before and after it, each loop gets the chance to do what it can do without waiting.
        """
        self._settle()
        self._on_loop(lambda: None if unless() else self._add(seconds))
        self._settle()

    def forget(self) -> None:
        """Keep no loop alive."""
        self._loops.clear()

    def _add(self, seconds: float) -> None:
        self.skipped += seconds

    def _settle(self) -> None:
        for _ in range(TURNS):
            self._on_loop(lambda: None)

    def _on_loop(self, what: Callable[[], None]) -> None:
        """Do it on the loop that was made last, and let the others look up."""
        here = asyncio._get_running_loop()
        done: list[None] = []

        def once() -> None:
            if not done:
                done.append(None)
                what()

        for number, loop in enumerate(reversed([loop for loop in self._loops if not loop.is_closed() and loop is not here])):
            heard = threading.Event()
            with suppress(RuntimeError):  # closed in this moment
                loop.call_soon_threadsafe(_then, once if number == 0 else lambda: None, heard)
                while loop.is_running() and not heard.wait(0.01):
                    pass
        once()  # if no loop was left that could


def _then(what: Callable[[], None], heard: threading.Event) -> None:
    what()
    heard.set()


class _SkippingLoop(asyncio.SelectorEventLoop):
    def __init__(self, clock: SkippedClock) -> None:
        self._skipped_clock = clock
        super().__init__()

    def time(self) -> float:
        return super().time() + self._skipped_clock.skipped
