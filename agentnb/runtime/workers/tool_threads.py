"""Threads that tools start: a run in such a thread has the mode of the tool's run, and asks its person.

Python has passed a thread's context on to the threads it starts only since 3.14. So once a run has a mode other than
``auto``, starting a thread or submitting work to a thread pool records the tool call. A run in such a thread has its
own budget and log.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextvars import ContextVar
from functools import cache, partial, wraps
from typing import Any, TypeVar

from agentnb.core.forks import after_fork
from agentnb.runtime.questions.current_call import current_call
from agentnb.runtime.questions.elicitation import CallElicitor
from agentnb.runtime.questions.model_code import ModelCode, as_code, model_code

T = TypeVar("T")

_started_by: ContextVar[CallElicitor | None] = ContextVar("started_by", default=None)
"""The tool call that started this thread, or that submitted the current work to a pool."""


def call_around() -> CallElicitor | None:
    """Return the tool call whose mode applies here: the running call, or the call that started this thread."""
    call = current_call.get() or _started_by.get()
    if call is None and (code := model_code()) is not None:  # which has left its context
        call = code.call
    return call


@cache
def follow_threads() -> None:
    """Record from now on, in this process, which tool call starts a thread or submits work to a thread pool."""
    start: Any = threading.Thread.start
    submit: Any = ThreadPoolExecutor.submit

    @wraps(start)
    def noted_start(thread: threading.Thread) -> None:
        if (call := call_around()) is not None:
            thread.run = partial(_run_as, call, model_code(), thread.run)  # type: ignore[method-assign]
        start(thread)

    @wraps(submit)
    def noted_submit(pool: ThreadPoolExecutor, work: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        # Also outside of tools: a thread of the pool may have been started by one.
        return submit(pool, _run_as, call_around(), model_code(), work, *args, **kwargs)

    threading.Thread.start = noted_start  # type: ignore[method-assign,assignment]
    ThreadPoolExecutor.submit = noted_submit  # type: ignore[method-assign,assignment]


def _run_as(call: CallElicitor | None, code: ModelCode | None, work: Callable[..., T], /, *args: Any, **kwargs: Any) -> T:
    before = _started_by.set(call)
    try:
        with as_code(code):
            return work(*args, **kwargs)
    finally:
        _started_by.reset(before)


def _leave_to_parent() -> None:
    call = _started_by.get()
    if call is not None:
        call.leave_to_parent()


after_fork(_leave_to_parent)
