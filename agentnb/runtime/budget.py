"""Money that runs may spend: their own budget, and what is left of that of whoever began them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from dataclasses import dataclass

from agentnb.core.run import Run
from agentnb.policies.verdict import Stop

OWN = "budget"
"""The name of a run's own limit; also of the stop reason."""


class Budget:
    """What may be spent, in US dollars, and has been. A budget inside another spends that one's money too. From any thread."""

    def __init__(
        self,
        limit: float | None = None,
        *,
        name: str = OWN,
        within: Budget | None = None,
        spent: float = 0.0,
        inside: float = 0.0,
    ) -> None:
        """``limit``: None for none of its own; ``name``: the name of this limit; ``spent``: what the run has paid already, and
        ``inside``: runs that it began.
        """
        self.limit = limit
        self.name = name
        self.spent = spent + inside
        self.run_id: str | None = None
        """Of the run whose budget it is."""
        self.detached = False
        """Nobody waits for that run: it goes on when the one that began it has ended."""
        self.closed = False
        """That run is over: a run that a tool of it began, and still waits for, is waited for by nobody."""
        self.on_paid_inside: Callable[[], None] = lambda: None
        """Called, from whatever thread, when a run that its run began has paid for something."""
        self._settled = spent
        self._within = within
        self._lock = threading.Lock()

    def settle(self, spent: float) -> None:
        """A run that is paid from this budget has spent so much by now, in all."""
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
        """What may still be spent; None if nothing limits it."""
        lefts = [budget.limit - budget.spent for budget in self._chain() if budget.limit is not None]
        return min(lefts, default=None)

    def exhausted(self) -> Budget | None:
        """The budget that is empty: this one, or one that it is in; None while there is money in all."""
        for budget in self._chain():
            if budget.limit is not None and budget.spent >= budget.limit:
                return budget
        return None

    def has_limit(self) -> bool:
        """Whether anything limits it now."""
        return any(budget.limit is not None for budget in self._chain())

    def by_others(self) -> float:
        """What was spent of it by runs that its run began."""
        return self.spent - self._settled

    def is_over(self) -> bool:
        """Whether the run it belongs to has ended, or one whose tool waits for it."""
        for budget in self._chain():
            if budget.closed or budget.detached:
                return budget.closed
        return False

    def may_run_out(self) -> bool:
        """Whether anything limits it, or may do so later: a session can be given a budget at any time."""
        return self.limit is not None or self._within is not None

    def _chain(self) -> Iterator[Budget]:
        budget: Budget | None = self
        while budget is not None:
            yield budget
            budget = budget._within


current_budget: ContextVar[Budget | None] = ContextVar("current_budget", default=None)
"""The budget of the run whose tool is running: runs that it begins are paid from it."""


@dataclass(frozen=True, slots=True)
class WithinBudget:
    """No more money than there is in the budget; the last round, with a summary before it, may go over it."""

    budget: Budget

    def __call__(self, run: Run) -> Stop | None:
        """Stop when it is spent."""
        spent = self.budget.exhausted()
        return None if spent is None else Stop(spent.name, "limited", limit=spent.limit)
