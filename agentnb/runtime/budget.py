"""Budgets in US dollars: a run's own, within that of its parent run or session."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Protocol, TypeVar

from agentnb.core.messages import encodable
from agentnb.detect.so_far import RunSoFar
from agentnb.errors import AgentnbError, SettingsError
from agentnb.policies.verdict import Stop

T = TypeVar("T")
OWN = "budget"
"""Name of a run's own limit, and of the stop reason."""
SPENDING = ("pay", "left", "exhausted", "has_limit")
"""The methods of a budget."""


class SpentLimit(Protocol):
    """A limit on spending that is reached, in US dollars."""

    @property
    def name(self) -> str:
        """Its name, which is the stop reason of a run that it ends."""

    @property
    def limit(self) -> float | None:
        """What may be spent."""

    @property
    def spent(self) -> float:
        """What was spent."""


class Spending(Protocol):
    """A budget that runs spend from, in US dollars: a `Budget`, or one that is shared in another way, as by many processes.

    Runs call it from any thread, at the end of each model call and before each round.
    """

    def pay(self, dollars: float) -> None:
        """Take what a run has spent; it may exceed what is left, as a reply costs what it costs."""

    def left(self) -> float | None:
        """Return what may still be spent; None if there is no limit."""

    def exhausted(self) -> SpentLimit | None:
        """Return the limit that is reached; None while money is left."""

    def has_limit(self) -> bool:
        """Return whether there is a limit now."""


class Budget:
    """A spending limit and the amount spent, in US dollars. Spending also counts against the outer budget. Thread-safe."""

    def __init__(
        self,
        limit: float | None = None,
        *,
        name: str = OWN,
        within: Spending | None = None,
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
        self._spend(more)

    def pay(self, dollars: float) -> None:
        """Take what a nested run has spent."""
        self._spend(dollars)
        self.on_paid_inside()

    def _spend(self, dollars: float) -> None:
        with self._lock:
            self.spent += dollars
        self._of_outer(lambda outer: outer.pay(dollars), None)

    def left(self) -> float | None:
        """Return what may still be spent; None if there is no limit."""
        own = None if self.limit is None else self.limit - self.spent
        outer = self._of_outer(lambda outer: outer.left(), None)
        return min((one for one in (own, outer) if one is not None), default=None)

    def exhausted(self) -> SpentLimit | None:
        """Return the first limit that is reached: this one or an outer one; None while all have money left."""
        if self.limit is not None and self.spent >= self.limit:
            return self
        return None if self._within is None else self._of_outer(lambda outer: outer.exhausted(), None)

    def has_limit(self) -> bool:
        """Return whether this budget or an outer one has a limit now."""
        return self.limit is not None or self._of_outer(lambda outer: outer.has_limit(), False)

    def _of_outer(self, ask: Callable[[Spending], T], without: T) -> T:
        """Return what the outer budget says. It may be anybody's: raises `SettingsError` for whatever it raises."""
        if self._within is None:
            return without
        try:
            return ask(self._within)
        except AgentnbError:  # of a budget further out, which says it
            raise
        except Exception as error:
            what = encodable(f"The budget {self._within!r} failed ({type(error).__name__}: {error})")
            raise SettingsError(what, f"Mend its methods: {', '.join(SPENDING)}") from error

    def by_others(self) -> float:
        """Return what nested runs have spent."""
        return self.spent - self._settled

    def is_over(self) -> bool:
        """Return whether its run has ended, or a parent run whose tool awaits it."""
        if self.closed or self.detached:
            return self.closed
        return isinstance(self._within, Budget) and self._within.is_over()

    def may_run_out(self) -> bool:
        """Return whether it has a limit or may get one later: a session can be given a budget at any time."""
        if self.limit is not None or self.run_id is None:
            return True  # without a run, it is that of a session
        outer = self._within
        return outer.may_run_out() if isinstance(outer, Budget) else outer is not None


current_budget: ContextVar[Budget | None] = ContextVar("current_budget", default=None)
"""Budget of the run whose tool is running; the runs that this tool starts spend from it."""


nested_levels: ContextVar[int] = ContextVar("nested_levels", default=0)
"""How many runs, one within the other, are around what runs here."""


@dataclass(frozen=True, slots=True)
class WithinBudget:
    """Policy that stops a run when its budget is exhausted; its last round, with a summary before it, may exceed it."""

    budget: Budget

    def __call__(self, run: RunSoFar) -> Stop | None:
        """Return a stop when the budget is exhausted."""
        spent = self.budget.exhausted()
        return None if spent is None else Stop(spent.name, "limited", limit=spent.limit)
