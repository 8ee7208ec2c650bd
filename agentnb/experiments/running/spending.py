"""The budget of an experiment: at its limit no cell begins, and those under way end as they would have."""

from __future__ import annotations

import threading


class CellSpending:
    """What the runs of an experiment have spent, in US dollars. Thread-safe.

    It ends no run: a run cut short by the experiment's budget would count as a failure of its variant.
    """

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

    def left(self) -> None:
        """Return None: a run may end although the experiment's budget is spent."""

    def exhausted(self) -> None:
        """Return None: no run ends for it."""

    def has_limit(self) -> bool:
        """Return False: prices are checked before the experiment begins."""
        return False
