"""The end of the program when its run has ended and a plain function keeps the main thread: nothing else can end that."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from agentnb.cli.command import FAILED
from agentnb.runtime.host.live import LiveRun

GRACE_SECONDS = 0.5
"""How long a function may take to return after its run has ended; it was interrupted before."""


@contextmanager
def exit_after(live: LiveRun, conclude: Callable[[], int]) -> Iterator[None]:
    """End the process if this block goes on after the run has ended, such as in a function that ignores its interrupt.

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
