"""Waiting for another thread: as long as needed, with a limit that only a hanging test reaches."""

from __future__ import annotations

import asyncio
import inspect
import linecache
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

PATIENCE = 60.0
"""Time limit of a waiting test in seconds."""
BLOCKING = ("sleep(", "acquire()", "acquire(True", "acquire(block", ".wait(", ".get(", "select(", ".poll(")
"""Parts of lines in which a thread waits without running Python."""


def wait_until(condition: Callable[[], Any]) -> None:
    """Return as soon as the condition holds. The error quotes the condition."""
    end, pause = time.monotonic() + PATIENCE, 0.001
    while not condition():
        assert time.monotonic() < end, f"never true: {inspect.getsource(condition).strip()}"
        time.sleep(pause)
        pause = min(2 * pause, 0.03)


async def turns(count: int = 5) -> None:
    """Give the other tasks of the loop this many turns."""
    for _ in range(count):
        await asyncio.sleep(0)


def wait_until_main_thread_blocks() -> None:
    """Return as soon as the main thread is inside a blocking call.

    While another thread has the interpreter, one on such a line is within the call: it lets go of the interpreter only there.
    """
    main = threading.main_thread().ident or 0

    def is_blocked() -> bool:
        frame = sys._current_frames()[main]
        line = linecache.getline(frame.f_code.co_filename, frame.f_lineno)
        return any(call in line for call in BLOCKING)

    wait_until(is_blocked)
