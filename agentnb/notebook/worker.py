"""A thread that does one thing after the other: what may take a moment and must not hold up who asks for it."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from queue import SimpleQueue


class Worker:
    """Does jobs in the order in which they were given."""

    def __init__(self, name: str) -> None:
        self._jobs: SimpleQueue[Callable[[], object] | None] = SimpleQueue()
        threading.Thread(target=self._work, name=name, daemon=True).start()

    def do(self, job: Callable[[], object]) -> None:
        """Do it soon. From any thread; returns at once."""
        self._jobs.put(job)

    def end(self) -> None:
        """End the thread when it has done what it was given before."""
        self._jobs.put(None)

    def _work(self) -> None:
        while (job := self._jobs.get()) is not None:
            try:
                job()
            except Exception:  # the next jobs have nothing to do with it
                logging.getLogger("agentnb").exception("A job of %s failed", threading.current_thread().name)
