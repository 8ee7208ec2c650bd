"""Event loops of plain tools on a thread whose event loop runs, such as that of a cell."""

from __future__ import annotations

import asyncio
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

T = TypeVar("T")

INSTALL = 'The event loop of the cell runs already: call asyncio.run, or pip install "agentnb[nest]" and nest_asyncio.apply()'
_swap_task: Callable[..., Any] = getattr(asyncio.tasks, "_swap_current_task", lambda *_: None)  # since Python 3.12


def call_nested(function: Callable[[], T]) -> T:
    """Call a plain function, which may run event loops of its own, as in a thread.

    `nest_asyncio` would change every event loop of the process, those of agentnb included: applying it is up to the person.
    """
    with _without_running_loop():
        try:
            return function()
        except RuntimeError as error:
            *_, (frame, _) = traceback.walk_tb(error.__traceback__)
            if frame.f_code is asyncio.BaseEventLoop._check_running.__code__:  # type: ignore[attr-defined]
                error.add_note(INSTALL)
            raise


@contextmanager
def _without_running_loop() -> Iterator[None]:
    """Let this thread have no running event loop; it waits meanwhile."""
    loop = asyncio._get_running_loop()
    if loop is None:
        yield
        return
    task = _swap_task(loop, None)
    asyncio._set_running_loop(None)
    try:
        yield
    finally:
        asyncio._set_running_loop(loop)
        asyncio.set_event_loop(loop)  # `asyncio.run` leaves none
        _swap_task(loop, task)
