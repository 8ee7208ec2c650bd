"""The end of this process, if a notebook announces it: its runs remain resumable by another process."""

from __future__ import annotations

import asyncio
import threading

NOTICE = 0.5
"""Seconds between an interrupt and the announced end of a kernel, since Jupyter interrupts a kernel before restarting it."""


class ProcessEnd:
    """Distinguishes a person's interrupt from the one that precedes the kernel's end."""

    def __init__(self) -> None:
        self.is_watched = False
        """True if the end of this process is announced."""
        self._announced = threading.Event()

    def announce(self) -> None:
        """Announce the end of this process. Thread-safe."""
        self._announced.set()

    async def follows(self) -> bool:
        """Wait, and return whether the process ends after an interrupt; a second interrupt ends the wait."""
        try:
            return self.is_watched and await asyncio.to_thread(self._announced.wait, NOTICE)
        except asyncio.CancelledError:
            return False


process_end = ProcessEnd()
"""The instance of this process."""
