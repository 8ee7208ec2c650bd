"""A thread that runs jobs one at a time, for work that must not block the caller."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from functools import cache
from queue import SimpleQueue


@cache
def worker(name: str) -> Worker:
    """Return the kernel's worker with this name."""
    return Worker(name)


class Worker:
    """Runs jobs in the order they were submitted."""

    def __init__(self, name: str) -> None:
        self._jobs: SimpleQueue[Callable[[], object] | None] = SimpleQueue()
        threading.Thread(target=self._work, name=name, daemon=True).start()

    def do(self, job: Callable[[], object]) -> None:
        """Queue a job. Thread-safe; returns at once."""
        self._jobs.put(job)

    def end(self) -> None:
        """End the thread once all queued jobs are done."""
        self._jobs.put(None)

    def _work(self) -> None:
        while (job := self._jobs.get()) is not None:
            try:
                job()
            except Exception:  # a failed job must not stop the next ones
                logging.getLogger("agentnb").exception("A job of %s failed", threading.current_thread().name)
