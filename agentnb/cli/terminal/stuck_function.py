"""Exit of the program after a run has ended while a plain function blocks the main thread."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from agentnb.cli.command import FAILED
from agentnb.runtime.host.live_run import LiveRun

GRACE_SECONDS = 0.5
"""Seconds that an interrupted function has to return after its run has ended."""


@contextmanager
def exit_after(live: LiveRun, conclude: Callable[[], int]) -> Iterator[None]:
    """End the process if this block continues after the run has ended, such as in a function that ignores its interrupt.

    ``conclude`` then writes the outcome, in another thread, and returns the exit code.
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
