"""The budget of a search, checked before each cell. It reserves the cost of active cells, the next cell and the judgement."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from agentnb.experiments.results.rows import Row
from agentnb.experiments.running.control import Control
from agentnb.experiments.running.engine import InKernel
from agentnb.experiments.running.spending import CellSpending, Group

CANDIDATES: Group = "", ""
"""The group that contains all cells."""


class BudgetReached(Exception):
    """Raised when the budget allows no further cell or proposal."""


class Stopped(Exception):
    """Raised when the search has been stopped."""


class Ledger(CellSpending):
    """The spending of a search and the budget for its next cell, in US dollars. All candidates are assumed to cost the same."""

    def __init__(self, limit: float | None, rows: Iterable[Row], other_costs: float, reserved: int) -> None:
        """``rows``: rows of finished cells; ``other_costs``: US dollars spent on proposals; ``reserved``: number of cells in
        the judgement.
        """
        costs = [row.known_cost for row in rows]
        super().__init__(limit, sum(costs), {CANDIDATES: max(costs)} if costs else {})
        self.other_costs = other_costs
        self.reserved = reserved

    def begin(self, key: str, group: Group) -> None:
        """Reserve the maximum cost of a cell, for any candidate."""
        super().begin(key, CANDIDATES)

    @property
    def spent(self) -> float:
        """US dollars spent so far, on cells and proposals."""
        return super().spent + self.other_costs

    @property
    def dearest(self) -> float | None:
        """Maximum cost of a cell so far, used as the estimate for further cells; None before the first cell."""
        return self._bounds.get(CANDIDATES)

    @property
    def available(self) -> float | None:
        """US dollars that are neither spent nor reserved for active cells and the judgement; None if there is no limit."""
        if self.limit is None:
            return None
        return self.limit - self.spent - self.set_aside - (self.dearest or 0.0) * self.reserved

    @property
    def is_spent(self) -> bool:
        """True if no further cell may start. The first cell runs alone, to determine the cost."""
        return self.available is not None and (self.available < (self.dearest or 0.0) or self.available <= 0)


class KeptKernel(InKernel):
    """Runs the cells of many batches. Each batch calls `close`, but the servers stay up until `end`."""

    async def close(self) -> None:
        """Keep the servers for the next batch."""

    async def end(self) -> None:
        """Close the MCP servers."""
        await super().close()


class SearchControl(Control):
    """Control of a search, whose cells run in many batches. Each batch starts the control again, but does not end it."""

    is_open = True

    def take(self, rows: Iterable[Row]) -> None:
        """Count the cells from earlier processes."""
        for row in rows:
            self._count(row)

    def begin(self, rows: list[Row], stop: Callable[[], None]) -> None:
        """Begin a batch, which ``stop`` cancels. Its ``rows`` have already been counted."""
        begun = self._begun
        super().begin([], stop)
        self._begun = begun

    def end(self, *, spent: bool) -> None:
        """Record the end of the search; the end of a batch is ignored."""
        if not self.is_open:
            super().end(spent=spent)

    def close(self) -> None:
        """Treat the next end as the end of the search. Until now, ``total`` was the maximum number of cells."""
        self.is_open = False
        if not self.is_stopping:
            self.total = self._done
