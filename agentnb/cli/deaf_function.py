"""The end of the program when a run has ended and a plain function of it has not: on the main thread nothing else ends it."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from agentnb.cli.command import FAILED
from agentnb.runtime.live import LiveRun

GRACE = 0.5
"""Seconds that a function gets to return after its run has ended: each has been interrupted by then."""


@contextmanager
def leaving_behind(live: LiveRun, conclude: Callable[[], int]) -> Iterator[None]:
    """End the process if this block still runs when its run has ended, such as in a function that ignores its interrupt.

    ``conclude`` then writes the outcome, in another thread, and returns the exit code.
    """
    has_left = threading.Event()

    def watch() -> None:
        with suppress(BaseException):  # its outcome is that of the block
            live.result()
        if has_left.wait(GRACE):
            return
        code = FAILED
        try:
            code = conclude()
        finally:
            os._exit(code)

    threading.Thread(target=watch, name="agentnb-deaf-function", daemon=True).start()
    try:
        yield
    finally:
        has_left.set()
