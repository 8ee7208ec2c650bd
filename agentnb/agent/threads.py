"""Where things run: the event loop in a thread of its own, and plain functions in the thread that fits them."""

from __future__ import annotations

import asyncio
import contextvars
import logging
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from functools import cache
from queue import Empty, SimpleQueue
from typing import Any, NamedTuple, TypeVar

T = TypeVar("T")

THREADS = 64
"""Tools that may run at the same time; asyncio's own pool has six threads on two cores."""
TICK = 0.1
"""Seconds after which a waiting thread looks up, so that an interrupt is noticed."""
GRACE = 5.0
"""Seconds that an interrupted run gets to close its log before the person gets the cell back anyhow."""


class LoopThread:
    """An event loop in a daemon thread, so that runs go on while the main thread is busy or waits."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        threading.Thread(target=self._serve, name="agentnb", daemon=True).start()

    def submit(self, make: Callable[[], Coroutine[Any, Any, T]]) -> Future[T]:
        """Run a coroutine there, in a copy of the caller's context: what it prints lands in the caller's cell."""
        future: Future[T] = Future()
        future.set_running_or_notify_cancel()
        context = contextvars.copy_context()
        self._loop.call_soon_threadsafe(lambda: self._loop.create_task(_into(future, make), context=context))
        return future

    def close(self) -> None:
        """End the loop when what is running now has run."""
        self._loop.call_soon_threadsafe(self._loop.stop)

    def _serve(self) -> None:
        asyncio.set_event_loop(self._loop)
        while True:
            try:
                self._loop.run_forever()
                break
            except BaseException:  # a task that raised SystemExit or KeyboardInterrupt: the other runs go on
                logging.getLogger("agentnb").exception("A task ended the event loop; it was started again")
        self._loop.run_until_complete(self._loop.shutdown_asyncgens())
        self._loop.close()


async def _into(future: Future[T], make: Callable[[], Coroutine[Any, Any, T]]) -> None:
    try:
        result = await make()
    except BaseException as error:
        future.set_exception(error)
        if not isinstance(error, Exception | asyncio.CancelledError):
            raise
    else:
        future.set_result(result)


class _Outcome(NamedTuple):
    value: Any
    error: BaseException | None

    def get(self) -> Any:
        if self.error is not None:
            raise self.error
        return self.value


def _attempt(function: Callable[[], Any]) -> _Outcome:
    # As a value: a future cannot carry every exception (StopIteration), a tuple can.
    try:
        return _Outcome(function(), None)
    except BaseException as error:
        return _Outcome(None, error)


@cache
def _pool() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(THREADS, thread_name_prefix="agentnb-tool")


async def call_in_thread(function: Callable[[], Any], parallel_safe: bool = True) -> Any:
    """Run a plain function in a thread of the pool, in a copy of the caller's context."""
    run = contextvars.copy_context().run
    outcome = await asyncio.get_running_loop().run_in_executor(_pool(), run, _attempt, function)
    return outcome.get()


class Foreground:
    """Lets the thread that waits for a run do its plain tools: in a notebook that is the kernel's main thread.

    There the tools see what a cell sees, draw where a cell draws, may ask with ``input()``, and can be interrupted.
    """

    def __init__(self) -> None:
        self._jobs: SimpleQueue[Callable[[], None] | None] = SimpleQueue()

    async def call(self, function: Callable[[], Any], parallel_safe: bool) -> Any:
        """Run a plain function on the waiting thread, or in the pool if it is safe beside others."""
        if parallel_safe:
            return await call_in_thread(function)
        loop = asyncio.get_running_loop()
        future: asyncio.Future[_Outcome] = loop.create_future()

        def answer(outcome: _Outcome) -> None:
            if not future.done():
                future.set_result(outcome)

        def job() -> None:
            if future.done():
                return
            outcome = _attempt(function)
            if isinstance(outcome.error, KeyboardInterrupt):
                raise outcome.error
            with suppress(RuntimeError):  # the loop was closed: the run has ended without waiting for this tool
                loop.call_soon_threadsafe(answer, outcome)

        self._jobs.put(job)
        return (await future).get()

    def wait(self, future: Future[T], stop: Callable[[], None]) -> T:
        """Wait for the run and do its tools. On an interrupt: ``stop`` it, wait until its log is closed, and raise
        KeyboardInterrupt.
        """
        future.add_done_callback(lambda _: self._jobs.put(None))
        try:
            while not future.done():
                try:
                    job = self._jobs.get(timeout=TICK)
                except Empty:
                    continue
                if job is not None:
                    job()
        except KeyboardInterrupt:
            stop()
            _wait_quietly(future)
            raise
        return future.result()


def _wait_quietly(future: Future[Any]) -> None:
    try:
        future.exception(timeout=GRACE)
    except TimeoutError:
        logging.getLogger("agentnb").warning("A tool does not let go: its run was told to stop and will end when the tool does")
