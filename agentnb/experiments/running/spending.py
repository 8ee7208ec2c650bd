"""The budget of an experiment: at its limit no cell begins, and those under way end as they would have."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Literal


class Unending:
    """A budget that ends no run: a run cut short by the experiment's budget would count as a failure of its variant."""

    def left(self) -> None:
        """Return None: a run may end although the experiment's budget is spent."""

    def exhausted(self) -> None:
        """Return None: no run ends for it."""

    def has_limit(self) -> bool:
        """Return False: prices are checked before the experiment begins."""
        return False


class CellSpending(Unending):
    """What the runs of an experiment have spent, in US dollars. Thread-safe."""

    def __init__(self, limit: float | None, spent: float = 0.0) -> None:
        self.limit = limit
        self._spent = spent
        self._lock = threading.Lock()

    @property
    def spent(self) -> float:
        """US dollars spent so far, those of earlier processes included."""
        return self._spent

    @property
    def is_spent(self) -> bool:
        """Whether the limit is reached."""
        return self.limit is not None and self.spent >= self.limit

    def pay(self, dollars: float) -> None:
        """Take what a run has spent."""
        with self._lock:
            self._spent += dollars


class SentSpending(Unending):
    """The same in a worker process: what runs spend is sent to the parent process, which counts it."""

    def __init__(self, send: Callable[[tuple[Literal["paid"], float]], None]) -> None:
        self._send = send

    def pay(self, dollars: float) -> None:
        """Pass on what a run has spent."""
        self._send(("paid", dollars))
