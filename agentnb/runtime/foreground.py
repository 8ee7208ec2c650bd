"""The foreground: plain tools run on the thread that waits for their run, and interrupts end the run they are meant for."""

from __future__ import annotations

import _thread
import asyncio
import signal
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from functools import partial
from queue import Empty, SimpleQueue
from types import FrameType
from typing import Any, TypeVar

from agentnb.runtime.budget import Budget, current_budget
from agentnb.runtime.threads import TICK, PendingOutcome, attempt, call_in_thread, time_limit

T = TypeVar("T")

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


class Foreground:
    """Runs the plain tools of a run on the thread that waits for it: in a notebook, the kernel's main thread.

    There the tools see what a cell sees, draw where a cell draws, may ask with ``input()``, and can be interrupted.

    While a thread waits, it is in one of these states:

    - waiting: no tool runs here. An interrupt is noted, and stops the run.
    - in a tool (``_interruptible``): an interrupt is noted, stops the run, and is raised inside the tool too.
    - stopped (``_stopped``): the handle has stopped the run. No other tool starts, and the outcome of the one that still runs
      is dropped. If it runs on the main thread, `end_tool` sends it a signal of our own (``_signalled``), which counts as no
      interrupt of the person's; one that is sent again meanwhile is an echo (``_echoes``).
    - interrupted (``_interrupted``): the person has interrupted the run, or one inside it. `wait` stops the run and raises
      `RunInterrupted` when its log is closed, or when `GRACE` is over.
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
        answer = PendingOutcome()
        start_clock = _stopped_clock(time_limit.get())
        budget = current_budget.get()  # not the whole context: what a tool sets in that of the kernel stays, as in a cell

        def job() -> None:
            if not answer.future.done():
                start_clock()
                with _paid_from(budget):
                    outcome = attempt(partial(self._in_tool, function))
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
