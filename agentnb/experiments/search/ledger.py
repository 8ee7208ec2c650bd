"""The budget of a search, held before each cell: what runs under way, the next one and the judgement may cost is set aside."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from agentnb.experiments.results.rows import Row
from agentnb.experiments.running.control import Control
from agentnb.experiments.running.engine import InKernel
from agentnb.experiments.running.spending import CellSpending, Group

CANDIDATES: Group = "", ""
"""The group of all cells."""


class BudgetReached(Exception):
    """The budget holds no further cell or proposal."""


class Stopped(Exception):
    """The search was stopped."""


class Ledger(CellSpending):
    """What a search has spent, in US dollars, and may still spend on its next cell. All candidates are taken to cost alike."""

    def __init__(self, limit: float | None, rows: Iterable[Row], other_costs: float, reserved: int) -> None:
        """``rows``: of cells that were run; ``other_costs``: US dollars of proposals; ``reserved``: cells of the judgement."""
        costs = [row.known_cost for row in rows]
        super().__init__(limit, sum(costs), {CANDIDATES: max(costs)} if costs else {})
        self.other_costs = other_costs
        self.reserved = reserved

    def begin(self, key: str, group: Group) -> None:
        """Set aside what a cell can spend, whichever its candidate."""
        super().begin(key, CANDIDATES)

    @property
    def spent(self) -> float:
        """US dollars spent so far, on cells and else."""
        return super().spent + self.other_costs

    @property
    def dearest(self) -> float | None:
        """The most that a cell has cost, which each further one is taken to cost; None before the first."""
        return self._bounds.get(CANDIDATES)

    @property
    def available(self) -> float | None:
        """US dollars that are not spent, nor set aside for cells under way and the judgement; None without a limit."""
        if self.limit is None:
            return None
        return self.limit - self.spent - self.set_aside - (self.dearest or 0.0) * self.reserved

    @property
    def is_spent(self) -> bool:
        """Whether no further cell may begin. The first runs alone: it shows what a cell costs."""
        return self.available is not None and (self.available < (self.dearest or 0.0) or self.available <= 0)


class KeptKernel(InKernel):
    """Runs the cells of many batches, each of which closes it: its servers stay up until its end."""

    async def close(self) -> None:
        """Keep all for the next batch."""

    async def end(self) -> None:
        """End the MCP servers."""
        await super().close()


class SearchControl(Control):
    """Control of a search, whose cells run in many batches: each begins it again, and none ends it."""

    is_open = True

    def take(self, rows: Iterable[Row]) -> None:
        """Count the cells of earlier processes."""
        for row in rows:
            self._count(row)

    def begin(self, rows: list[Row], stop: Callable[[], None]) -> None:
        """Have a batch stopped by ``stop``; its ``rows`` are counted already."""
        begun = self._begun
        super().begin([], stop)
        self._begun = begun

    def end(self, *, spent: bool) -> None:
        """Note the end, unless it is that of a batch."""
        if not self.is_open:
            super().end(spent=spent)

    def close(self) -> None:
        """Let the next end be that of the search; ``total`` was the most that it could run."""
        self.is_open = False
        if not self.is_stopping:
            self.total = self._done
