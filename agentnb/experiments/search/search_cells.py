"""Cells of a search. Each candidate, task and repeat is run only once, even if requested repeatedly or after a crash."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from agentnb.errors import ExperimentProblems
from agentnb.experiments.planning.experiment_checks import Check
from agentnb.experiments.planning.experiment_tasks import ExperimentTask
from agentnb.experiments.planning.schedule import Schedule, Seeds
from agentnb.experiments.planning.variants import Variant, model_names_of, read_variants
from agentnb.experiments.results.experiment_folder import Records
from agentnb.experiments.results.rows import Row
from agentnb.experiments.running.cell_work import Work
from agentnb.experiments.running.engine import Engine
from agentnb.experiments.search.search_budget import BudgetReached, KeptKernel, Ledger, SearchControl, Stopped
from agentnb.guidance.sets import GuidanceSet
from agentnb.models.model import Model
from agentnb.runtime.questions.answerers import Approve


@dataclass(frozen=True, slots=True)
class CellPlan:
    """Settings that all cells of a search share."""

    id: str
    tasks: Sequence[ExperimentTask]
    models: Sequence[str | Model]
    """Models that run the tasks; empty to use the agent's own model."""
    agent: Any
    checks: Sequence[Check]
    primary: str
    repeats: int
    seed: int
    seeds: Seeds
    approve: Approve | str
    check_seconds: float
    start: GuidanceSet

    def variant(self, guidance: GuidanceSet) -> Variant:
        """Return the variant of a candidate, which is named after its content."""
        problems: list[str] = []
        named = {"start": self.start} if guidance.version == self.start.version else {guidance.name: guidance}
        variants = read_variants(named, self.agent, self.models, problems)
        if problems:
            raise ExperimentProblems.of(problems)
        return variants[0]

    def schedule(self, variant: Variant, places: Sequence[int]) -> Schedule:
        """Return the cells of a variant for these tasks."""
        names = model_names_of(self.models)
        return Schedule(self.tasks, places, (variant,), names, self.repeats, self.seed, self.seeds)

    def work(self, variant: Variant) -> Work:
        """Return the work for the variant's runs."""
        checks, models = [check for check in self.checks if not check.is_asked], self.models or (None,)
        return Work(self.id, self.tasks, (variant,), models, checks, self.primary, self.approve, self.check_seconds)


@dataclass(slots=True)
class SearchCells:
    """Runs the requested cells that have no row, within the budget."""

    plan: CellPlan
    records: Records
    ledger: Ledger
    control: SearchControl
    places: int
    _kernel: KeptKernel | None = None
    _variants: dict[str, Variant] = field(default_factory=dict)
    _rows: dict[str, Row] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._rows = self.records.rows()

    @property
    def run_count(self) -> int:
        """Number of cells with a row."""
        return len(self._rows)

    async def rows(self, guidance: GuidanceSet, places: Sequence[int]) -> list[Row]:
        """Return a candidate's rows for these tasks. Raises `BudgetReached` or `Stopped` if any are still missing."""
        variant = self._variants.get(guidance.version)
        if variant is None:
            variant = self._variants[guidance.version] = self.plan.variant(guidance)
        if self.ledger.limit is not None and self.ledger.dearest is None:
            await self._run(variant, places[:1])
        return await self._run(variant, places)

    async def _run(self, variant: Variant, places: Sequence[int]) -> list[Row]:
        schedule = self.plan.schedule(variant, places)
        keys = [cell.key for cell in schedule]
        if any(key not in self._rows for key in keys):
            if self.control.is_stopping:
                raise Stopped
            work = self.plan.work(variant)
            self._kernel = self._kernel or KeptKernel(work, self.records, self.ledger, self.places)
            self._kernel.work = work
            judges = [check for check in self.plan.checks if check.is_asked]
            engine = Engine([schedule], work, self.records, self.control, self.ledger, self._kernel, judges=judges)
            await engine.run(self._rows)
            self._rows = self.records.rows()
            if any(key not in self._rows for key in keys):
                raise Stopped if self.control.is_stopping else BudgetReached
        return [self._rows[key] for key in keys]

    async def close(self) -> None:
        """Release the resources that the runs share."""
        if self._kernel is not None:
            await self._kernel.end()
