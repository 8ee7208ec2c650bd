"""Exits the program if a plain function still blocks the main thread after the run has ended."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from agentnb.cli.command import FAILED
from agentnb.runtime.host.live_run import LiveRun

GRACE_SECONDS = 0.5
"""Seconds for an interrupted function to return once its run has ended."""


@contextmanager
def exit_after(live: LiveRun, conclude: Callable[[], int]) -> Iterator[None]:
    """End the process if the code in this block outlives the run, as a function that ignores interrupts does.

    In that case ``conclude`` writes the outcome, in another thread, and returns the exit code.
    """
    is_done = threading.Event()

    def watch() -> None:
        with suppress(BaseException):  # the block has the same outcome
            live.result()
        if is_done.wait(GRACE_SECONDS):
            return
        code = FAILED
        try:
            code = conclude()
        finally:
            os._exit(code)

    threading.Thread(target=watch, name="agentnb-stuck-function", daemon=True).start()
    try:
        yield
    finally:
        is_done.set()
