"""Budgets in US dollars: a run's own, within that of its parent run or session."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from dataclasses import dataclass

from agentnb.detect.so_far import RunSoFar
from agentnb.policies.verdict import Stop

OWN = "budget"
"""Name of a run's own limit, and of the stop reason."""


class Budget:
    """A spending limit and the amount spent, in US dollars. Spending also counts against the outer budget. Thread-safe."""

    def __init__(
        self,
        limit: float | None = None,
        *,
        name: str = OWN,
        within: Budget | None = None,
        spent: float = 0.0,
        inside: float = 0.0,
    ) -> None:
        """``limit``: None for no limit of its own; ``within``: the outer budget; ``spent``: already spent by the run itself;
        ``inside``: already spent by its nested runs.
        """
        self.limit = limit
        self.name = name
        self.spent = spent + inside
        self.run_id: str | None = None
        """Id of the run that owns this budget."""
        self.detached = False
        """The run is not awaited: it continues after its parent run has ended."""
        self.closed = False
        """The run has ended; nobody awaits its nested runs."""
        self.on_paid_inside: Callable[[], None] = lambda: None
        """Called, from any thread, when a nested run has spent something."""
        self._settled = spent
        self._within = within
        self._lock = threading.Lock()

    def settle(self, spent: float) -> None:
        """Update the total that this budget's own run has spent so far."""
        if spent == self._settled:
            return
        with self._lock:
            more = spent - self._settled
            self._settled = spent
        self._pay(more)

    def _pay(self, dollars: float) -> None:
        with self._lock:
            self.spent += dollars
        if self._within is not None:
            self._within._pay(dollars)
            self._within.on_paid_inside()

    def left(self) -> float | None:
        """Return what may still be spent; None if there is no limit."""
        lefts = [budget.limit - budget.spent for budget in self._chain() if budget.limit is not None]
        return min(lefts, default=None)

    def exhausted(self) -> Budget | None:
        """Return the first exhausted budget: this one or an outer one; None while all have money left."""
        for budget in self._chain():
            if budget.limit is not None and budget.spent >= budget.limit:
                return budget
        return None

    def has_limit(self) -> bool:
        """Return whether this budget or an outer one has a limit now."""
        return any(budget.limit is not None for budget in self._chain())

    def by_others(self) -> float:
        """Return what nested runs have spent."""
        return self.spent - self._settled

    def is_over(self) -> bool:
        """Return whether its run has ended, or a parent run whose tool awaits it."""
        for budget in self._chain():
            if budget.closed or budget.detached:
                return budget.closed
        return False

    def may_run_out(self) -> bool:
        """Return whether it has a limit or may get one later: a session can be given a budget at any time."""
        return self.limit is not None or self._within is not None

    def _chain(self) -> Iterator[Budget]:
        budget: Budget | None = self
        while budget is not None:
            yield budget
            budget = budget._within


current_budget: ContextVar[Budget | None] = ContextVar("current_budget", default=None)
"""Budget of the run whose tool is running; the runs that this tool starts spend from it."""


@dataclass(frozen=True, slots=True)
class WithinBudget:
    """Policy that stops a run when its budget is exhausted; its last round, with a summary before it, may exceed it."""

    budget: Budget

    def __call__(self, run: RunSoFar) -> Stop | None:
        """Return a stop when the budget is exhausted."""
        spent = self.budget.exhausted()
        return None if spent is None else Stop(spent.name, "limited", limit=spent.limit)
