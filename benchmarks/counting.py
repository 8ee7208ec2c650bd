"""Counts of what work takes: calls of Python functions, and bytes. They import nothing of agentnb."""

from __future__ import annotations

import gc
import sys
import threading
import tracemalloc
from collections.abc import Awaitable, Callable
from types import FrameType

Work = Callable[[], Awaitable[object]]
"""Work that is counted, on a running event loop: making the loop is not agentnb's work."""


async def calls_of(work: Work) -> int:
    """Count the calls of Python functions that work makes, in all threads."""
    calls = 0

    def note(frame: FrameType, event: str, _: object) -> None:
        nonlocal calls
        calls += event == "call"

    gc.disable()
    threading.setprofile(note)
    sys.setprofile(note)
    try:
        await work()
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
        gc.enable()
    return calls


async def bytes_of(work: Work) -> int:
    """Return the most bytes that work holds at once, beyond those held before."""
    gc.collect()
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    await work()
    most = tracemalloc.get_traced_memory()[1] - before
    tracemalloc.stop()
    return most
