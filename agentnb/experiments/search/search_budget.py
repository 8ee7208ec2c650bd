"""Budget of a search, checked before each cell: reserves the cost of active cells, the next cell and the final judgement."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from agentnb.experiments.results.rows import Row
from agentnb.experiments.running.control import Control
from agentnb.experiments.running.engine import InKernel
from agentnb.experiments.running.spending import CellSpending, Group

CANDIDATES: Group = "", ""
"""Group of all cells."""


class BudgetReached(Exception):
    """The budget allows no further cell or proposal."""


class Stopped(Exception):
    """The search was stopped."""


class Ledger(CellSpending):
    """Spending of a search and budget for its next cell, in US dollars. All candidates are assumed to cost alike."""

    def __init__(self, limit: float | None, rows: Iterable[Row], other_costs: float, reserved: int) -> None:
        """``rows``: rows of finished cells; ``other_costs``: US dollars of proposals; ``reserved``: number of cells of the
        judgement.
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
        """Maximum cost of a cell so far, the estimate for further cells, or None before the first."""
        return self._bounds.get(CANDIDATES)

    @property
    def available(self) -> float | None:
        """US dollars neither spent nor reserved for active cells and the judgement, or None without a limit."""
        if self.limit is None:
            return None
        return self.limit - self.spent - self.set_aside - (self.dearest or 0.0) * self.reserved

    @property
    def is_spent(self) -> bool:
        """True if no further cell may begin. The first cell runs alone, to determine the cost."""
        return self.available is not None and (self.available < (self.dearest or 0.0) or self.available <= 0)


class KeptKernel(InKernel):
    """Runs the cells of many batches, each of which closes it; its servers stay up until `end`."""

    async def close(self) -> None:
        """Keep the servers for the next batch."""

    async def end(self) -> None:
        """Close the MCP servers."""
        await super().close()


class SearchControl(Control):
    """Control of a search, whose cells run in many batches: each batch begins it again without ending it."""

    is_open = True

    def take(self, rows: Iterable[Row]) -> None:
        """Count the cells of earlier processes."""
        for row in rows:
            self._count(row)

    def begin(self, rows: list[Row], stop: Callable[[], None]) -> None:
        """Begin a batch, which ``stop`` cancels; its ``rows`` are counted already."""
        begun = self._begun
        super().begin([], stop)
        self._begun = begun

    def end(self, *, spent: bool) -> None:
        """Record the end of the search; ignored at the end of a batch."""
        if not self.is_open:
            super().end(spent=spent)

    def close(self) -> None:
        """Mark the next end as that of the search; ``total`` was the maximum number of cells."""
        self.is_open = False
        if not self.is_stopping:
            self.total = self._done
