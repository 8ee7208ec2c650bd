"""Where things run: the event loop in a thread of its own, and plain functions in the thread that fits them."""

from __future__ import annotations

import _thread
import asyncio
import contextvars
import logging
import signal
import threading
import time
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from functools import cache, partial
from queue import Empty, SimpleQueue
from types import FrameType
from typing import Any, NamedTuple, TypeVar

from agentnb.runtime.budget import Budget, current_budget

T = TypeVar("T")

IDLE = 64
"""Threads kept for the next plain tools; asyncio's own pool has six on two cores and makes waves of more."""
TICK = 0.1
"""Seconds after which a waiting thread looks up, so that an interrupt is noticed."""
GRACE = 1.0
"""Seconds that an interrupted run gets to close its log before the person gets the cell back anyhow."""


ATTEMPTS = 5
"""How often a signal is sent again: one that comes a moment before a call that blocks does not end that call."""


class RunInterrupted(KeyboardInterrupt):
    """The person interrupted a run that was waited for. ``closed``: whether its log has its end already."""

    def __init__(self, *, closed: bool) -> None:
        what = "its log is closed" if closed else "it ends when its tool lets go of the event loop"
        super().__init__(f"the run was stopped, and {what}")
        self.closed = closed


class LoopThread:
    """An event loop in a daemon thread, so that runs go on while the main thread is busy or waits."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._tasks: set[asyncio.Task[None]] = set()
        threading.Thread(target=self._serve, name="agentnb", daemon=True).start()

    def submit(self, make: Callable[[], Coroutine[Any, Any, T]]) -> Future[T]:
        """Run a coroutine there, in a copy of the caller's context: what it prints lands in the caller's cell."""
        future: Future[T] = Future()
        future.set_running_or_notify_cancel()
        context = contextvars.copy_context()

        def start() -> None:
            # The loop itself holds tasks only weakly.
            task = self._loop.create_task(_into(future, make), context=context)
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

        self._loop.call_soon_threadsafe(start)
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


class _Workers:
    """Daemon threads for plain tools. There is one for every call that is going on, so that a call that was given up takes
    nobody's place; and none keeps the process alive.
    """

    def __init__(self) -> None:
        self._jobs: SimpleQueue[Callable[[], None]] = SimpleQueue()
        self._lock = threading.Lock()
        self._idle = 0

    def submit(self, job: Callable[[], None]) -> None:
        with self._lock:
            if reuse := self._idle > 0:
                self._idle -= 1
        if reuse:
            self._jobs.put(job)
        else:
            threading.Thread(target=self._work, args=(job,), name="agentnb-tool", daemon=True).start()

    def _work(self, job: Callable[[], None]) -> None:
        while True:
            job()
            with self._lock:
                if self._idle >= IDLE:
                    return
                self._idle += 1
            job = self._jobs.get()


@cache
def _workers() -> _Workers:
    return _Workers()


async def call_in_thread(function: Callable[[], Any], parallel_safe: bool = True) -> Any:
    """Run a plain function in a thread of its own, in a copy of the caller's context."""
    answered = _Answer()
    context = contextvars.copy_context()
    _workers().submit(lambda: answered.set(context.run(_attempt, function)))
    return (await answered.future).get()


class _Answer:
    """An outcome on its way from the thread of a tool to the event loop that waits for it, or no longer does."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self.future: asyncio.Future[_Outcome] = self._loop.create_future()

    def set(self, outcome: _Outcome) -> None:
        with suppress(RuntimeError):  # the loop was closed: the run has ended without waiting for this tool
            self._loop.call_soon_threadsafe(self._set, outcome)

    def _set(self, outcome: _Outcome) -> None:
        if not self.future.done():
            self.future.set_result(outcome)


time_limit: ContextVar[asyncio.Timeout | None] = ContextVar("time_limit", default=None)
"""The time limit of the tool call that is going on."""


@contextmanager
def _paid_from(budget: Budget | None) -> Iterator[None]:
    """Runs that are begun within it spend of this budget."""
    before = current_budget.set(budget)
    try:
        yield
    finally:
        current_budget.reset(before)


def _stopped_clock(limit: asyncio.Timeout | None) -> Callable[[], None]:
    """Stop the clock of a call that has to wait for its thread; what is returned starts it again, from any thread."""
    when = limit.when() if limit is not None else None
    if limit is None or when is None:
        return lambda: None
    loop = asyncio.get_running_loop()
    seconds = when - loop.time()
    limit.reschedule(None)

    def start() -> None:
        if not limit.expired():
            limit.reschedule(loop.time() + seconds)

    def start_from_anywhere() -> None:
        with suppress(RuntimeError):  # the loop was closed
            loop.call_soon_threadsafe(start)

    return start_from_anywhere


class Foreground:
    """Lets the thread that waits for a run do its plain tools: in a notebook that is the kernel's main thread.

    There the tools see what a cell sees, draw where a cell draws, may ask with ``input()``, and can be interrupted.
    """

    def __init__(self) -> None:
        self._jobs: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._interrupted = False
        self._stop: Callable[[], None] | None = None
        self._outer: Foreground | None = None
        self._waited = False
        """A run was begun, and told of an interrupt."""
        self._lock = threading.Lock()  # never taken by a signal handler
        self._stopped = False
        """The run was stopped by its handle, and knows it: no other tool begins, and what this one makes of it is nothing."""
        self._interruptible = False
        """A tool is running on the main thread."""
        self._signalled = False
        """A signal of ours is on its way to it."""
        self._echoes = 0
        """Signals that were sent while one was on its way: they come with it, or after it."""

    async def call(self, function: Callable[[], Any], parallel_safe: bool) -> Any:
        """Run a plain function on the waiting thread, or in one of its own if it is safe beside others."""
        if parallel_safe:
            return await call_in_thread(function)
        answer = _Answer()
        start_clock = _stopped_clock(time_limit.get())
        budget = current_budget.get()  # not the whole context: what a tool sets in that of the kernel stays, as in a cell

        def job() -> None:
            if not answer.future.done():
                start_clock()
                with _paid_from(budget):
                    outcome = _attempt(partial(self._in_tool, function))
                if isinstance(outcome.error, KeyboardInterrupt) and not self._stopped:
                    self._interrupted = True  # perhaps noted by a run inside the tool, and not here
                if not self._interrupted:  # else the run is about to be stopped, and the call answered as cancelled
                    answer.set(outcome)

        self._jobs.put(job)
        return (await answer.future).get()

    def wait(self, begin: Callable[[], tuple[Future[T], Callable[[], None]]]) -> T:
        """Begin a run, wait for its end and do its tools. ``begin`` returns its future and what stops it.

        An interrupt at any moment, whatever a tool makes of it, stops the run; when its log is closed (or `GRACE` is
        over), `RunInterrupted` is raised.
        """
        with self.own_interrupts():
            self._waited = True
            future, self._stop = begin()
            future.add_done_callback(lambda _: self._jobs.put(None))
            outer = current_budget.get()
            while not future.done() and not self._interrupted:
                self._do_next()
                if outer is not None and outer.is_over():  # the run whose tool waits here has ended without it
                    self._stop_once()
            if self._interrupted:
                self._stop_once()
                raise RunInterrupted(closed=_ends_soon(future))
        return future.result()

    def end_tool(self) -> None:
        """The run was stopped: begin no other tool, and interrupt the one that runs on the main thread. From any thread.

        To the tool it is an interrupt like the person's own; to who waits it is none, and they get their run.
        """
        with self._lock:
            self._stopped = True
        if threading.current_thread() is not threading.main_thread() and self._signal():
            threading.Thread(target=self._signal_again, name="agentnb-stop", daemon=True).start()

    def _signal(self) -> bool:
        """Interrupt the tool, if one runs; whether the signal is one that we see arrive."""
        with self._lock:  # the tool cannot end meanwhile, so that no signal comes after it
            handler = signal.getsignal(signal.SIGINT)
            if not self._interruptible or not callable(handler):  # such a handler ends the process, or does nothing
                return False
            self._echoes += self._signalled
            self._signalled = isinstance(getattr(handler, "__self__", None), Foreground)  # else the tool has set its own
            _interrupt_main_thread()
            return self._signalled

    def _signal_again(self) -> None:
        for _ in range(ATTEMPTS):
            time.sleep(TICK)
            if not (self._signalled and self._signal()):
                return

    def _do_next(self) -> None:
        try:
            job = self._jobs.get(timeout=TICK)
        except Empty:
            return
        if job is not None and self._may_begin():
            try:
                job()
            finally:
                self._tool_ended()

    def _may_begin(self) -> bool:
        with self._lock:
            self._interruptible = not self._stopped and threading.current_thread() is threading.main_thread()
            return not self._stopped

    def _tool_ended(self) -> None:
        """From here on nobody sends a signal; one that was sent is waited for, so that it hits nothing that comes later."""
        with self._lock:
            self._interruptible = False
        latest = time.monotonic() + GRACE
        while self._signalled and time.monotonic() < latest:  # longer only if the tool has set another handler meanwhile
            time.sleep(0)
        self._signalled, self._echoes = False, 0

    def _in_tool(self, function: Callable[[], Any]) -> Any:
        return function()  # a frame of its own: an interrupt is raised here and in what is called from here

    @contextmanager
    def own_interrupts(self) -> Iterator[None]:
        """Note interrupts here, instead of having them raised anywhere; a tool that is running gets them as ever.

        What prepares a run may be done within it too: where Python is just tidying up, it throws an interrupt away.
        """
        before = signal.getsignal(signal.SIGINT)
        around = getattr(before, "__self__", None)
        if around is self or threading.current_thread() is not threading.main_thread():
            yield
            return
        self._outer = around if isinstance(around, Foreground) else None
        signal.signal(signal.SIGINT, self._note)
        try:
            yield
            if self._interrupted and not self._waited:
                raise KeyboardInterrupt
        finally:
            signal.signal(signal.SIGINT, before if before is not None else signal.default_int_handler)

    def _note(self, number: int, frame: FrameType | None) -> None:
        """An interrupt of the person's ends this run and those whose tool waits for it, whatever the tool makes of it.

        A signal of `end_tool` ends what runs inside the run it was meant for; that one has its stop already.
        """
        waiting = list(self._with_outer())
        meant = [place for place, one in enumerate(waiting) if one._hears()]
        for one in waiting[: meant[-1] if meant else None]:
            one._interrupted = True
            one._jobs.put(None)
            one._stop_once()
        if self._is_in_tool(frame):
            raise KeyboardInterrupt

    def _hears(self) -> bool:
        """Whether this is a signal of ours for this run; it has come then."""
        if self._signalled:
            self._signalled = False
            return True
        self._echoes, had = max(self._echoes - 1, 0), self._echoes
        return had > 0

    def _with_outer(self) -> Iterator[Foreground]:
        one: Foreground | None = self
        while one is not None:
            yield one
            one = one._outer

    def _is_in_tool(self, frame: FrameType | None) -> bool:
        """Whether this is a line of the tool or of what it calls, and not one of ours around it."""
        ours = (Foreground._in_tool.__code__, Foreground.wait.__code__)
        while frame is not None:
            if frame.f_code in ours and frame.f_locals["self"] is self:
                return frame.f_code is ours[0]
            frame = frame.f_back
        return self._interruptible  # a greenlet of the tool: its frames lead nowhere

    def _stop_once(self) -> None:
        stop, self._stop = self._stop, None
        if stop is not None:
            stop()


def _interrupt_main_thread() -> None:
    main = threading.main_thread().ident
    if hasattr(signal, "pthread_kill") and main is not None:
        signal.pthread_kill(main, signal.SIGINT)  # also ends a system call that blocks
    else:
        _thread.interrupt_main()


def _ends_soon(future: Future[Any]) -> bool:
    try:
        future.exception(timeout=GRACE)
    except TimeoutError:
        return False
    return True


class AwakeForInterrupts:
    """Wakes the main thread's event loop ten times a second: ipykernel's interrupt does not wake a sleeping one."""

    def __enter__(self) -> None:
        self._handle: asyncio.TimerHandle | None = None
        if threading.current_thread() is threading.main_thread():
            self._tick()

    def _tick(self) -> None:
        self._handle = asyncio.get_running_loop().call_later(TICK, self._tick)

    def __exit__(self, *_: object) -> None:
        if self._handle is not None:
            self._handle.cancel()


def running_loop() -> asyncio.AbstractEventLoop | None:
    """The event loop of this thread, if one is running."""
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None
