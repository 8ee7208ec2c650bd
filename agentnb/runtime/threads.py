"""Threads: event loops in the background, and worker threads for plain tools."""

from __future__ import annotations

import asyncio
import contextvars
import logging
import threading
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import CancelledError, Future, wait
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from functools import cache
from queue import SimpleQueue
from typing import Any, ClassVar, NamedTuple, Protocol, TypeVar
from weakref import WeakSet

from agentnb.core.forks import after_fork

T = TypeVar("T")

IDLE = 64
"""Number of idle threads kept for plain tools. (On two cores, asyncio's own pool has six threads, and would run more tools than
that in batches.)
"""
TICK = 0.1
"""Interval in seconds at which a waiting thread wakes up, so that interrupts are noticed."""


class LoopThread:
    """An event loop in a daemon thread, so that runs continue while the main thread is busy or waits."""

    def __init__(self) -> None:
        self._begin()
        _loop_threads.add(self)

    def _begin(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._tasks: set[asyncio.Task[None]] = set()
        self._is_of_parent = False
        threading.Thread(target=self._serve, name="agentnb", daemon=True).start()

    def submit(self, make: Callable[[], Coroutine[Any, Any, T]]) -> Future[T]:
        """Run a coroutine on this loop, in a copy of the caller's context, so that its output appears in the caller's cell."""
        if self._is_of_parent:
            self._begin()
        future: Future[T] = Future()
        future.set_running_or_notify_cancel()
        context = contextvars.copy_context()

        def start() -> None:
            # The loop itself keeps only weak references to tasks.
            task = self._loop.create_task(_into(future, make), context=context)
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

        self._loop.call_soon_threadsafe(start)
        return future

    async def run(self, make: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Run a coroutine on this loop and return its result to the running loop. Cancelling the caller cancels the
        coroutine.
        """
        if self._is_of_parent:
            self._begin()
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(make(), self._loop))

    def close(self) -> None:
        """Stop the loop once the callbacks that are ready now have run."""
        if not self._is_of_parent:
            self._loop.call_soon_threadsafe(self._loop.stop)

    def leave_to_parent(self) -> None:
        """Use a new loop and thread for the next coroutine: this process was forked, and the old ones belong to the parent
        process.
        """
        _loops_of_parent.append(self._loop)  # kept: closing it would change the selector of the parent's loop
        self._is_of_parent = True

    def _serve(self) -> None:
        asyncio.set_event_loop(self._loop)
        while True:
            try:
                self._loop.run_forever()
                break
            except BaseException:  # a task raised SystemExit or KeyboardInterrupt: the other runs continue
                logging.getLogger("agentnb").exception("A task ended the event loop, which was restarted")
        self._loop.set_exception_handler(_forget)
        self._loop.run_until_complete(self._loop.shutdown_asyncgens())
        self._loop.close()


_loop_threads: WeakSet[LoopThread] = WeakSet()
_loops_of_parent: list[asyncio.AbstractEventLoop] = []


def _forget(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """Suppress asyncio's warnings about tasks that ignored their cancellation."""


async def _into(future: Future[T], make: Callable[[], Coroutine[Any, Any, T]]) -> None:
    try:
        result = await make()
    except BaseException as error:
        future.set_exception(error)
        if not isinstance(error, Exception | asyncio.CancelledError):
            raise
    else:
        future.set_result(result)


class Outcome(NamedTuple):
    """The return value or the exception of a plain tool."""

    value: Any
    error: BaseException | None

    def get(self) -> Any:
        """Return the value, or raise the error."""
        if self.error is not None:
            raise self.error
        return self.value


def attempt(function: Callable[[], Any]) -> Outcome:
    """Call the function and return its outcome, value or error."""
    # As a value: a future cannot carry every exception (StopIteration), a tuple can.
    try:
        return Outcome(function(), None)
    except BaseException as error:
        return Outcome(None, error)


class _Workers:
    """Daemon threads for plain tools: one for each running call, so that an abandoned call does not block the others.
    They do not keep the process alive.
    """

    def __init__(self) -> None:
        self._jobs: SimpleQueue[Callable[[], None]] = SimpleQueue()
        self._lock = threading.Lock()
        self._idle = 0

    def submit(self, job: Callable[[], None]) -> None:
        with self._lock:
            if reuse := self._idle > 0:
                self._idle -= 1
        if not reuse:
            threading.Thread(target=self._work, name="agentnb-tool", daemon=True).start()
        self._jobs.put(job)  # not an argument of the thread, which would keep the run of its first job in memory

    def _work(self) -> None:
        while True:
            job = self._jobs.get()
            job()
            del job  # else an idle thread keeps the run of its last job in memory
            with self._lock:
                if self._idle >= IDLE:
                    return
                self._idle += 1


@cache
def _workers() -> _Workers:
    return _Workers()


def _begin_anew() -> None:
    _workers.cache_clear()
    for thread in list(_loop_threads):
        thread.leave_to_parent()


after_fork(_begin_anew)


def in_worker(job: Callable[[], None]) -> None:
    """Run the job in a worker thread; it must not raise exceptions."""
    _workers().submit(job)


class Work(Protocol):
    """The work of a worker thread: a plain function, which may still be running when nothing awaits it."""

    is_running: bool


class PendingOutcome:
    """The outcome of a plain tool, passed from the tool's thread to the event loop that awaits it."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self.future: asyncio.Future[Outcome] = self._loop.create_future()

    def set(self, outcome: Outcome) -> None:
        """Pass the outcome, from any thread; no-op if it is no longer awaited."""
        with suppress(RuntimeError):  # the loop is closed: the run has ended without waiting for this tool
            self._loop.call_soon_threadsafe(self._set, outcome)

    def _set(self, outcome: Outcome) -> None:
        if not self.future.done():
            self.future.set_result(outcome)


time_limit: ContextVar[asyncio.Timeout | None] = ContextVar("time_limit", default=None)
"""Time limit of the current tool call."""


class AwakeForInterrupts:
    """Wakes the main thread's event loop ten times a second, since ipykernel's interrupt does not wake a sleeping loop."""

    _of_loop: ClassVar[_Alarm | None] = None
    """Alarm of the loop that was most recently kept awake."""
    _alarm: _Alarm | None = None

    def __enter__(self) -> None:
        if threading.current_thread() is not threading.main_thread():
            return
        loop, alarm = asyncio.get_running_loop(), AwakeForInterrupts._of_loop
        if alarm is None or alarm.loop is not loop:
            alarm = AwakeForInterrupts._of_loop = _Alarm(loop)
        alarm.awaited += 1
        self._alarm = alarm
        if not alarm.is_set:
            alarm.is_set = True
            # When the loop next runs, and not at once: nothing may be awaited by then, and a timer is slow to create. In an
            # empty context, which keeps nothing of a run alive.
            loop.call_soon(alarm.ring, context=contextvars.Context())

    def __exit__(self, *_: object) -> None:
        if self._alarm is not None:
            self._alarm.awaited -= 1


class _Alarm:
    """Wakes an event loop while something is awaited on it, and once more after that: consecutive runs share the alarm."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self.awaited = 0
        self.is_set = False

    def ring(self) -> None:
        """Schedule the next ring while anything is awaited."""
        self.is_set = self.awaited > 0
        if self.is_set:
            self.loop.call_later(TICK, self.ring)


def is_running(task: asyncio.Task[Any] | None) -> bool:
    """Return whether this task is running now; False while its coroutine is being closed from outside, with GeneratorExit."""
    return asyncio._get_running_loop() is not None and asyncio.current_task() is task


def is_cancelling() -> bool:
    """True if the current task is being cancelled, or outside a task; otherwise, code in it has raised the
    cancellation itself.
    """
    task = asyncio.current_task()
    return task is None or task.cancelling() > 0


_hidden = threading.local()
_swap_task: Callable[..., Any] = getattr(asyncio.tasks, "_swap_current_task", lambda *_: None)  # since Python 3.12


def running_loop() -> asyncio.AbstractEventLoop | None:
    """Return this thread's running event loop, even if hidden from a tool, or None."""
    return asyncio._get_running_loop() or getattr(_hidden, "loop", None)


@contextmanager
def without_running_loop() -> Iterator[None]:
    """Let code on this thread run its own event loops, as in any other thread: the running loop waits for it anyway."""
    loop = asyncio._get_running_loop()
    if loop is None:
        yield
        return
    before, _hidden.loop = getattr(_hidden, "loop", None), loop
    task = asyncio.current_task(loop)
    if task is not None:  # none in a callback of the loop; Python 3.12 raises `KeyError` there
        _swap_task(loop, None)
    asyncio._set_running_loop(None)
    try:
        yield
    finally:
        asyncio._set_running_loop(loop)
        asyncio.set_event_loop(loop)  # `asyncio.run` leaves none
        _hidden.loop = before
        if task is not None:
            _swap_task(loop, task)


def wait_until_over(asked: Future[T], is_over: Callable[[], bool]) -> T:
    """Block this thread until a call's question or inner call is answered, and return its result; an interrupt ends
    the wait.

    Raises `asyncio.CancelledError` if the call ends first, since its tool might catch an `Exception`.
    """
    try:
        while not (asked.done() or is_over()):
            wait([asked], timeout=TICK)
        return asked.result(timeout=TICK)
    except (CancelledError, TimeoutError):
        raise asyncio.CancelledError("The call has ended") from None
    finally:
        asked.cancel()
