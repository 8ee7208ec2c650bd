"""Event loops that plain tools run on a thread whose event loop is already running, such as a cell's."""

from __future__ import annotations

import asyncio
import traceback
from collections.abc import Callable
from typing import TypeVar

from agentnb.runtime.threads import without_running_loop

T = TypeVar("T")

INSTALL = (
    'The event loop of the cell is already running: call asyncio.run, or pip install "agentnb[nest]" and nest_asyncio.apply()'
)


def call_nested(function: Callable[[], T]) -> T:
    """Call a plain function, which may run its own event loops as it could in a thread.

    `nest_asyncio` would change every event loop of the process, including agentnb's own; applying it is up to the person.
    """
    with without_running_loop():
        try:
            return function()
        except RuntimeError as error:
            *_, (frame, _) = traceback.walk_tb(error.__traceback__)
            if frame.f_code is asyncio.BaseEventLoop._check_running.__code__:  # type: ignore[attr-defined]
                error.add_note(INSTALL)
            raise
