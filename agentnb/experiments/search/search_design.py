"""The design of a search: what it may run and spend, before anything runs."""

from __future__ import annotations

from dataclasses import dataclass

from agentnb.display.texts.labels import counted
from agentnb.experiments.design import Design, effect_told, ground_told


@dataclass(frozen=True, slots=True)
class SearchDesign:
    """The most that a search runs. Cells are runs of one candidate on one task, under one model and repeat."""

    proposals: int
    searched: int
    """Tasks that candidates are tried on."""
    folds: int
    """Looks at each candidate."""
    search_cells: int
    judgement: Design
    """The final comparison, on tasks that the search never sees."""
    ablation_cells: int
    budget: float | None
    """US dollars for all of it; None for no limit."""
    cost: float | None
    """US dollars: 0 for models that cost nothing; None for unknown, within the budget."""

    @property
    def cells(self) -> int:
        """Runs in all, without those of the proposer."""
        return self.search_cells + self.judgement.cells + self.ablation_cells

    def __repr__(self) -> str:
        free = self.cost == 0
        cost = "nothing" if free else "unknown" if self.budget is None else f"at most ${self.budget:g}, the budget"
        tasks, looks = counted(self.searched, "task"), counted(self.folds, "look")
        judgement = self.judgement
        return "\n".join(
            [
                f"Search: at most {counted(self.proposals, 'proposal')}, each tried on up to {tasks} in {looks}: "
                f"at most {self.search_cells:,} runs",
                f"Judgement, once, on {counted(judgement.tasks, 'task')} that the search never sees: {judgement.cells:,} runs. "
                f"Minimum detectable effect: {effect_told(judgement)} ({ground_told(judgement)})",
                f"Ablation of each line on the tasks of the search: at most {self.ablation_cells:,} runs",
                f"In all at most {self.cells:,} runs, and those of the proposer, one for each proposal. Cost: {cost}",
            ]
        )
