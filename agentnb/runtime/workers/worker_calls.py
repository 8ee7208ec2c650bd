"""Plain functions in worker threads, and their interruption when their run is stopped."""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from agentnb.runtime.questions.current_call import current_call
from agentnb.runtime.threads import Outcome, PendingOutcome, attempt, in_worker, time_limit

GRACE = 0.1
"""Seconds that an interrupted function has to end; shorter than the patience of a stopped run."""
CHECK = 0.005
"""Seconds between checks on whether the function has ended."""


class _Thread(threading.local):
    """The current call of a thread."""

    call: WorkerCall | None = None


_thread = _Thread()


def worker_call() -> WorkerCall | None:
    """Return the plain function call that this thread is running, if it is a worker thread."""
    return _thread.call


class ToolInterrupted(KeyboardInterrupt):
    """Raised in a plain tool's thread when its run was stopped or timed out."""


class WorkerCall:
    """A call of a plain function in a worker thread.

    `interrupt` raises `ToolInterrupted` in it, just as a kernel interrupt raises KeyboardInterrupt in a cell: between
    two bytecode instructions, so that a call into a library, such as ``time.sleep``, returns first. The exception is
    raised at most once, and only in the function: never in the thread's later work, nor in `held` code, which checks
    ``is_interrupted`` itself.
    """

    wake: Callable[[], None] = staticmethod(lambda: None)
    """Wakes held code that is waiting."""

    def __init__(self, function: Callable[[], Any]) -> None:
        self._function = function
        self._lock = threading.Lock()
        self._thread: int | None = None
        """Id of the thread, while the function may be interrupted."""
        self._is_held = False
        self.is_interrupted = False
        self.is_running = True
        """True until the function has ended, including before it begins."""

    def run(self) -> Outcome:
        """Call the function in this thread, unless it has already been interrupted."""
        outcome, _thread.call = Outcome(None, ToolInterrupted()), self
        try:
            if self._begin():
                outcome = attempt(self._function)
            self._end()
        except ToolInterrupted:
            pass  # it came between two instructions of ours; there is no second one
        finally:
            self.is_running, _thread.call = False, None
        return outcome

    def interrupt(self) -> None:
        """Interrupt the function, from another thread. No-op the second time, or if the function has ended."""
        if self.is_interrupted:
            return
        with self._lock:  # so that the function cannot end now and the exception hit later code
            self.is_interrupted = True
            if self._thread is not None and not self._is_held:
                _raise_in(self._thread)
        self.wake()

    @contextmanager
    def held(self, is_held: bool = True) -> Iterator[None]:
        """Defer interrupts while the block runs, or allow them in a part of such a block.

        A deferred interrupt is raised as soon as it is allowed. For use only in the function's thread.
        """
        before = self._hold(is_held)
        try:
            yield
        finally:
            self._hold(before)

    def _hold(self, is_held: bool) -> bool:
        """Set whether interrupts are deferred, and return the previous value."""
        with self._lock:
            before = self._is_held
            if before and not is_held and self.is_interrupted:
                raise ToolInterrupted
            self._is_held = is_held
            if is_held and self.is_interrupted and self._thread is not None:
                _absorb()
        return before

    def _begin(self) -> bool:
        with self._lock:
            if not self.is_interrupted:
                self._thread = threading.get_ident()
            return not self.is_interrupted

    def _end(self) -> None:
        with self._lock:
            if self.is_interrupted and self._thread is not None:
                _absorb()
            self._thread = None


async def call_in_thread(function: Callable[[], Any], parallel_safe: bool = True) -> Any:
    """Run a plain function in a worker thread, in a copy of the caller's context.

    If the caller is cancelled, the function is interrupted, unless it was only this call's time limit that expired: then the
    model continues.
    """
    answered, call, asker = PendingOutcome(), WorkerCall(function), current_call.get()
    if asker is not None:
        asker.worker = call
    context = contextvars.copy_context()
    in_worker(lambda: answered.set(context.run(call.run)))
    try:
        return (await answered.future).get()
    except asyncio.CancelledError:
        limit = time_limit.get()
        if limit is None or not limit.expired():
            call.interrupt()
            await _wait_for_end(call)
        raise


async def _wait_for_end(call: WorkerCall) -> None:
    """Give the function a moment to end."""
    latest = asyncio.get_running_loop().time() + GRACE
    while call.is_running and asyncio.get_running_loop().time() < latest:  # noqa: ASYNC110  # the thread knows no loop
        await asyncio.sleep(CHECK)


def _absorb() -> None:
    """Absorb an exception that is pending in this thread.

    The exception is raised and caught: if it were only withdrawn, Python 3.11 would believe forever that an exception
    is pending, and hang under any tracing, such as a debugger or ``%prun``.
    """
    try:
        _raise_in(threading.get_ident())  # at most one is pending
        for _ in range(1_000):
            pass
    except ToolInterrupted:
        pass


def _raise_in(thread: int) -> None:
    """Raise `ToolInterrupted` in a thread at its next bytecode instruction."""
    try:
        import ctypes  # loads a library, which only a stop needs

        raise_in = ctypes.pythonapi.PyThreadState_SetAsyncExc
    except (ImportError, AttributeError):  # another Python: the function is abandoned
        return
    raise_in(ctypes.c_ulong(thread), ctypes.py_object(ToolInterrupted))
