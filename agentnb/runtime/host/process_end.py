"""The end of this process, where a notebook announces it: its runs are left so that another process takes them up."""

from __future__ import annotations

import asyncio
import threading

NOTICE = 0.5
"""Seconds in which the end of a kernel is announced after an interrupt: Jupyter interrupts a kernel before it restarts it."""


class ProcessEnd:
    """Tells an interrupt by the person from that before the end of the kernel."""

    def __init__(self) -> None:
        self.is_watched = False
        """Whether somebody announces the end of this process."""
        self._announced = threading.Event()

    def announce(self) -> None:
        """Say that this process ends. From any thread."""
        self._announced.set()

    async def follows(self) -> bool:
        """Return whether the end of the process follows an interrupt; a second one ends the waiting."""
        try:
            return self.is_watched and await asyncio.to_thread(self._announced.wait, NOTICE)
        except asyncio.CancelledError:
            return False


process_end = ProcessEnd()
"""That of this process."""
