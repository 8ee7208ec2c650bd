"""Budgets in US dollars: a run's own, within that of its parent run or session."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Protocol, TypeVar

from agentnb.core.messages import encodable
from agentnb.core.usage import NOTHING_USED, NestedUsage, Usage
from agentnb.detect.run import Run
from agentnb.errors import AgentnbError, SettingsError
from agentnb.policies.verdict import Stop
from agentnb.runtime.clock import ignore
from agentnb.runtime.event_log import EventLog
from agentnb.runtime.servers.servers import Servers

T = TypeVar("T")
OWN = "budget"
"""Name of a run's own limit, and of the stop reason."""
_NOTHING = NestedUsage(0.0, NOTHING_USED)
SPENDING = ("pay", "left", "exhausted", "has_limit")
"""The methods of a budget."""


class SpentLimit(Protocol):
    """A spending limit, in US dollars, that has been reached."""

    @property
    def name(self) -> str:
        """Name of the limit, which becomes the stop reason of the run."""

    @property
    def limit(self) -> float | None:
        """The limit itself."""

    @property
    def spent(self) -> float:
        """Amount spent so far."""


class Spending(Protocol):
    """A budget in US dollars for runs to spend from: a `Budget`, or any object with these methods, such as one shared
    by processes.

    Runs call it from any thread, at the end of each model call and before each round.
    """

    def pay(self, dollars: float) -> None:
        """Deduct what a run has spent. The amount may exceed the remainder, since a reply's cost is known only afterwards."""

    def left(self) -> float | None:
        """Return the remaining amount, or None if there is no limit."""

    def exhausted(self) -> SpentLimit | None:
        """Return the limit that was reached, or None while money remains."""

    def has_limit(self) -> bool:
        """Return whether a limit is currently set."""


class Budget:
    """A spending limit and the amount spent, in US dollars. Spending also counts towards the outer budget. Thread-safe."""

    def __init__(
        self,
        limit: float | None = None,
        *,
        name: str = OWN,
        within: Spending | None = None,
        spent: float = 0.0,
        inside: float = 0.0,
        usage: Usage = NOTHING_USED,
        is_of_file: bool = False,
    ) -> None:
        """``limit``: its own limit or None; ``within``: the outer budget; ``spent`` and ``usage``: what the run
        itself has used so far; ``inside``: what its nested runs have spent so far; ``is_of_file``: whether the limit
        comes only from a file.
        """
        self.limit = limit
        self.is_of_file = is_of_file
        self.name = name
        self.spent = spent + inside
        self.log: EventLog | None = None
        """Log of the run that owns this budget, or None for a session's budget."""
        self.host_servers: Servers | None = None
        """MCP servers of the host that started the budget's run."""
        self.own_servers: Servers | None = None
        """MCP servers that are disconnected when its run ends."""
        self.detached = False
        """True if the run continues after its parent run has ended."""
        self.closed = False
        """True once the run has ended, so that nothing awaits its nested runs."""
        self.has_place: bool = getattr(within, "has_place", False)
        """True if this run or an enclosing one holds a slot for external agents."""
        self.on_paid_inside: Callable[[], None] = ignore
        """Called, from any thread, when a nested run has used tokens or money."""
        self._own = _NOTHING if usage is NOTHING_USED and not spent else NestedUsage(spent, usage)
        self._inside: dict[str, NestedUsage] = {}
        """Usage of nested runs that the run has not logged yet, by run id."""
        self._within = within
        self._lock = threading.Lock()

    def settle(self, spent: float, usage: Usage = NOTHING_USED) -> None:
        """Set the totals of this budget's own run, excluding its nested runs."""
        before = self._own
        if (spent, usage) == before:  # for example, the model reports no usage
            return
        own = NestedUsage(spent, usage)
        if own.is_nothing and usage.cost is not None:
            return
        with self._lock:
            is_first = not before.spent and before.usage is NOTHING_USED
            more = own if is_first else NestedUsage(spent - before.spent, usage.since(before.usage))
            self._own = own
        self._spend("" if self.log is None else self.log.id, more)

    def pay(self, dollars: float) -> None:
        """Deduct the cost of a nested run whose token usage is unknown."""
        self.take("", NestedUsage.of_dollars(dollars))

    def take(self, run_id: str, nested: NestedUsage) -> None:
        """Add the usage of a nested run, at any depth."""
        if self.log is not None:
            with self._lock:
                before = self._inside.get(run_id)
                self._inside[run_id] = nested if before is None else before.including(nested)
        self._spend(run_id, nested)
        self.on_paid_inside()

    @property
    def servers(self) -> Servers:
        """MCP servers of the run: its parent run's, or else its host's, or else its own, created on demand."""
        outer = self._within
        if isinstance(outer, Budget) and outer.log is not None:
            return outer.servers
        with self._lock:
            servers = self.host_servers or self.own_servers
            if servers is None:
                servers = self.own_servers = Servers()
            return servers

    @property
    def has_news(self) -> bool:
        """True if nested runs have usage that this run has not logged yet."""
        return bool(self._inside)

    def take_inside(self) -> dict[str, NestedUsage]:
        """Return and clear the usage of nested runs since the last call, by run id."""
        with self._lock:
            inside, self._inside = self._inside, {}
        return inside

    def _spend(self, run_id: str, usage: NestedUsage) -> None:
        with self._lock:
            self.spent += usage.spent
        outer = self._within
        if isinstance(outer, Budget):
            outer.take(run_id, usage)
        elif usage.spent:
            self._of_outer(lambda outer: outer.pay(usage.spent), None)

    def left(self) -> float | None:
        """Return the remaining amount, or None if there is no limit."""
        own = None if self.limit is None else self.limit - self.spent
        outer = self._of_outer(lambda outer: outer.left(), None)
        return min((amount for amount in (own, outer) if amount is not None), default=None)

    def exhausted(self) -> SpentLimit | None:
        """Return the first limit reached, in this budget or an outer one, or None if all have money left."""
        if self.limit is not None and self.spent >= self.limit:
            return self
        return None if self._within is None else self._of_outer(lambda outer: outer.exhausted(), None)

    def has_limit(self) -> bool:
        """Return whether this budget or an outer one currently has a limit."""
        return self.limit is not None or (self._within is not None and self._of_outer(lambda outer: outer.has_limit(), False))

    def has_limit_of_person(self) -> bool:
        """Return whether the person set a limit, here or in an outer budget. A file cannot raise such a limit."""
        if self.limit is not None and not self.is_of_file:
            return True
        outer = self._within
        return (
            outer.has_limit_of_person() if isinstance(outer, Budget) else self._of_outer(lambda outer: outer.has_limit(), False)
        )

    def _of_outer(self, ask: Callable[[Spending], T], without: T) -> T:
        """Query the outer budget. Any exception from third-party code becomes a `SettingsError`."""
        if self._within is None:
            return without
        try:
            return ask(self._within)
        except AgentnbError:  # of a budget further out, which explains itself
            raise
        except Exception as error:
            problem = encodable(f"The budget {self._within!r} failed ({type(error).__name__}: {error})")
            raise SettingsError(problem, f"Fix its methods: {', '.join(SPENDING)}") from error

    def is_over(self) -> bool:
        """Return whether the run, or a parent run whose tool awaits it, has ended."""
        if self.closed or self.detached:
            return self.closed
        return isinstance(self._within, Budget) and self._within.is_over()

    def may_run_out(self) -> bool:
        """Return whether there is a limit or may be one later: a session accepts a budget at any time."""
        if self.limit is not None or self.log is None:
            return True  # a budget without a run is a session's
        outer = self._within
        return outer.may_run_out() if isinstance(outer, Budget) else outer is not None


current_budget: ContextVar[Budget | None] = ContextVar("current_budget", default=None)
"""Budget of the run whose tool is running; runs that the tool starts spend from it."""


nested_levels: ContextVar[int] = ContextVar("nested_levels", default=0)
"""Nesting depth: number of runs around the current code."""


@dataclass(frozen=True, slots=True)
class WithinBudget:
    """Policy that stops a run when its budget is exhausted. The last round, and the summary before it, may exceed it."""

    budget: Budget

    def __call__(self, run: Run) -> Stop | None:
        """Return a `Stop` if the budget is exhausted."""
        spent = self.budget.exhausted()
        return None if spent is None else Stop(spent.name, "limited", limit=spent.limit)
