"""The foreground: plain tools run on the thread that waits for their run, and an interrupt ends the run for which it
is meant.
"""

from __future__ import annotations

import _thread
import asyncio
import signal
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager, nullcontext, suppress
from functools import partial
from queue import Empty, SimpleQueue
from types import FrameType
from typing import Any, TypeVar

from agentnb.runtime.budget import Budget, current_budget
from agentnb.runtime.questions.current_call import current_call
from agentnb.runtime.questions.elicitation import CallElicitor
from agentnb.runtime.threads import TICK, Outcome, PendingOutcome, attempt, in_worker, time_limit
from agentnb.runtime.workers.nested_loops import call_nested
from agentnb.runtime.workers.worker_calls import call_in_thread, worker_call

T = TypeVar("T")

GRACE = 1.0
"""Seconds that an interrupted run has to close its log; after that, the cell ends anyway."""
ATTEMPTS = 5
"""Maximum number of times that a signal is repeated, since one that arrives just before a blocking call does not end
the call.
"""


class RunInterrupted(KeyboardInterrupt):
    """The person interrupted an awaited run. ``closed``: whether its log is already closed."""

    def __init__(self, *, closed: bool) -> None:
        state = "its log is closed" if closed else "it ends when its tool releases the event loop"
        super().__init__(f"the run was stopped, and {state}")
        self.closed = closed


class Foreground:
    """Runs the plain tools of a run on the thread that waits for it: in a notebook, the kernel's main thread.

    There the tools see what a cell sees, draw where a cell draws, may ask with ``input()``, and can be interrupted.
    States of a waiting thread:

    - waiting: no tool runs here. An interrupt is noted, and stops the run.
    - in a tool (``_interruptible``): an interrupt is noted, stops the run, and is also raised inside the tool.
    - stopped (``_stopped``): the handle has stopped the run. No further tool starts, and the outcome of a running tool is
      dropped. If it runs on the main thread, `end_tool` sends it a signal of our own (``_signalled``), which does not count as
      an interrupt by the person; repeated signals are echoes (``_echoes``).
    - interrupted (``_interrupted``): the person has interrupted the run or a nested run. `wait` stops the run and raises
      `RunInterrupted` when its log is closed, or when the grace period is over.
    """

    def __init__(self, *, grace: float = GRACE) -> None:
        """``grace``: seconds that an interrupted run has to close its log."""
        self._grace = grace
        self._jobs: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._interrupted = False
        self._stop: Callable[[], None] | None = None
        self._outer: Foreground | None = None
        self._waited = False
        """True once `wait` has been called; it handles any interrupt."""
        self._left = False
        """True once `wait` has returned: nested runs that continue then run their plain tools in threads."""
        self._lock = threading.Lock()  # never taken by a signal handler
        self._stopped = False
        """True if the handle stopped the run: no further tool starts, and the outcome of the running tool is dropped."""
        self._interruptible = False
        """True while a tool runs on the main thread."""
        self._running: PendingOutcome | None = None
        """Outcome of the tool that is running on the main thread."""
        self._signalled = False
        """True while a signal of our own is on its way to the tool."""
        self._echoes = 0
        """Number of signals sent while another was on its way: they arrive with or after it."""

    async def call(self, function: Callable[[], Any], parallel_safe: bool) -> Any:
        """Run a plain function on the waiting thread, or in a worker thread if it is parallel-safe."""
        if parallel_safe or self._left:
            return await call_in_thread(function)
        answer = PendingOutcome()
        start_clock = _stopped_clock(time_limit.get())
        budget, asker = (
            current_budget.get(),
            current_call.get(),
        )  # not the whole context: variables that a tool sets in the kernel's context persist, as in a cell

        def job() -> None:
            if not answer.future.done():
                start_clock()
                self._running = answer
                with _within_run(budget, asker):
                    outcome = attempt(partial(self._in_tool, function))
                self._running = None
                if isinstance(outcome.error, KeyboardInterrupt) and not (self._stopped or answer.future.done()):
                    self._interrupted = True  # perhaps noted only by a run nested in the tool
                if not self._interrupted:  # else the run is being stopped, and the call answered as cancelled
                    answer.set(outcome)

        self._jobs.put(job)
        try:
            return (await answer.future).get()
        except asyncio.CancelledError:
            if not (self._stopped or self._interrupted):
                self._interrupt_tool(answer)  # given up, for example at its time limit: others wait for its thread
            raise

    def wait(self, future: Future[T], stop: Callable[[], None]) -> T:
        """Wait for the end of a run, running its tools meanwhile. ``stop``: stops the run.

        An interrupt at any moment stops the run, even if a tool catches it; `RunInterrupted` is raised when the run's
        log is closed, or when the grace period is over.
        """
        with self.own_interrupts():
            self._waited = True
            self._stop = stop
            future.add_done_callback(lambda _: self._jobs.put(None))
            outer, around = current_budget.get(), worker_call()
            if around is not None:
                around.wake = partial(self._jobs.put, None)
            try:
                while not future.done() and not self._interrupted:
                    self._do_next()
                    if outer is not None and outer.is_over():  # the parent run, whose tool waits here, has ended
                        self._stop_once()
                    if around is not None and around.is_interrupted:  # of a tool in a worker thread, whose run was stopped
                        self._interrupted = True
            finally:
                self._leave()
            if self._interrupted:
                self._stop_once()
                raise RunInterrupted(closed=_ends_soon(future, self._grace))
        return future.result()

    def run_here(self, function: Callable[[], Any], stop: Callable[[], None]) -> Outcome:
        """Run one plain function on this thread, where nothing is waiting for its run. ``stop``: stops the run."""
        with self.own_interrupts():
            self._waited, self._stop = True, stop
            try:
                if not self._may_begin():
                    return Outcome(None, KeyboardInterrupt())
                outcome = attempt(partial(self._in_tool, function))
            finally:
                self._tool_ended()
        if self._interrupted:
            self._stop_once()
            return Outcome(None, KeyboardInterrupt())
        return outcome

    @property
    def is_in_tool(self) -> bool:
        """True while a tool runs on the main thread."""
        return self._interruptible

    def refuse_tools(self) -> None:
        """Start no further tool of the run, and drop the outcome of the running one. Thread-safe."""
        with self._lock:
            self._stopped = True

    def end_tool(self) -> None:
        """Start no further tool of the stopped run, and interrupt the tool on the main thread. Thread-safe.

        The tool gets a KeyboardInterrupt; the code that waits still gets its run.
        """
        self.refuse_tools()
        self._interrupt_tool()

    def _interrupt_tool(self, only: PendingOutcome | None = None) -> None:
        """Interrupt the tool on the main thread, if there is one. ``only``: only the tool with this outcome."""
        if threading.current_thread() is not threading.main_thread() and self._signal(only):
            threading.Thread(target=self._signal_again, args=(only,), name="agentnb-stop", daemon=True).start()

    def _signal(self, only: PendingOutcome | None) -> bool:
        """Interrupt the running tool, if there is one. Return whether our own handler will see the signal."""
        with self._lock:  # so that the tool cannot end now and no signal arrives after it
            handler = signal.getsignal(signal.SIGINT)
            if not self._interruptible or not callable(handler):  # SIG_DFL would end the process, SIG_IGN do nothing
                return False
            if only is not None and self._running is not only:
                return False
            self._echoes += self._signalled
            self._signalled = isinstance(getattr(handler, "__self__", None), Foreground)  # else the tool has set its own
            _interrupt_main_thread()
            return self._signalled

    def _signal_again(self, only: PendingOutcome | None) -> None:
        for _ in range(ATTEMPTS):
            time.sleep(TICK)
            if not (self._signalled and self._signal(only)):
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

    def _leave(self) -> None:
        """Move queued jobs to worker threads, since a nested run that nothing awaits may continue."""
        self._left = True
        while not (self._stopped or self._interrupted):
            try:
                job = self._jobs.get_nowait()
            except Empty:
                return
            if job is not None:
                in_worker(job)

    def _may_begin(self) -> bool:
        with self._lock:
            self._interruptible = not self._stopped and threading.current_thread() is threading.main_thread()
            return not self._stopped

    def _tool_ended(self) -> None:
        """Refuse new signals and wait for pending ones, so that none of them hits later code."""
        with self._lock:
            self._interruptible = False
        latest = time.monotonic() + GRACE
        while self._signalled and time.monotonic() < latest:  # takes long only if the tool has set another handler
            time.sleep(0)
        self._signalled, self._echoes = False, 0

    def _in_tool(self, function: Callable[[], Any]) -> Any:
        # A separate frame: an interrupt is raised only here and in calls from here. An earlier one was only noted.
        if self._interrupted:
            raise KeyboardInterrupt
        worker = worker_call()
        with nullcontext() if worker is None else worker.held(False):
            return call_nested(function)

    @contextmanager
    def own_interrupts(self) -> Iterator[None]:
        """Record interrupts instead of raising them at arbitrary points; they are still raised inside a running tool.

        Runs should also be prepared within this block, since Python discards an interrupt raised during cleanup.
        """
        before = signal.getsignal(signal.SIGINT)
        around = getattr(before, "__self__", None)
        if around is self or threading.current_thread() is not threading.main_thread():
            worker = worker_call()
            with nullcontext() if worker is None else worker.held():
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
        """Stop this run and the parent runs whose tools await it, even if a tool catches the interrupt.

        A signal from `end_tool` stops only the runs nested in its target, which is already stopped.
        """
        waiting = list(self._with_outer())
        meant = [index for index, foreground in enumerate(waiting) if foreground._hears()]
        for foreground in waiting[: meant[-1] if meant else None]:
            foreground._interrupted = True
            foreground._jobs.put(None)
            foreground._stop_once()
        if self._is_in_tool(frame):
            raise KeyboardInterrupt

    def _hears(self) -> bool:
        """Return whether this is our own signal to this run, and mark it as received."""
        if self._signalled:
            self._signalled = False
            return True
        self._echoes, echoes_before = max(self._echoes - 1, 0), self._echoes
        return echoes_before > 0

    def _with_outer(self) -> Iterator[Foreground]:
        foreground: Foreground | None = self
        while foreground is not None:
            yield foreground
            foreground = foreground._outer

    def _is_in_tool(self, frame: FrameType | None) -> bool:
        """Return whether the frame belongs to the tool or to code called by the tool, rather than to our code around it."""
        ours = (Foreground._in_tool.__code__, Foreground.wait.__code__)
        while frame is not None:
            if frame.f_code in ours and frame.f_locals["self"] is self:
                return frame.f_code is ours[0]
            frame = frame.f_back
        return self._interruptible  # a greenlet of the tool: its frames do not lead here

    def _stop_once(self) -> None:
        stop, self._stop = self._stop, None
        if stop is not None:
            stop()


@contextmanager
def _within_run(budget: Budget | None, asker: CallElicitor | None) -> Iterator[None]:
    """Let runs that start in this block spend from ``budget``, and ask through ``asker``."""
    budget_before, asker_before = current_budget.set(budget), current_call.set(asker)
    try:
        yield
    finally:
        current_budget.reset(budget_before)
        current_call.reset(asker_before)


def _stopped_clock(limit: asyncio.Timeout | None) -> Callable[[], None]:
    """Suspend the time limit of a call that waits for its thread; return a thread-safe function that restarts it."""
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
        signal.pthread_kill(main, signal.SIGINT)  # also ends a blocking system call
    else:
        _thread.interrupt_main()


def _ends_soon(future: Future[Any], seconds: float) -> bool:
    try:
        future.exception(timeout=seconds)
    except TimeoutError:
        return False
    return True
