"""The design of a search: its maximum number of runs and costs, calculated before anything runs."""

from __future__ import annotations

from dataclasses import dataclass

from agentnb.display.texts.labels import pluralize
from agentnb.experiments.design import Design, describe_effect, explain_ground


@dataclass(frozen=True, slots=True)
class SearchDesign:
    """The maximum extent of a search. A cell is one run of a candidate on one task, under one model and repeat."""

    proposals: int
    searched: int
    """Number of tasks on which candidates are tried."""
    folds: int
    """Number of looks at each candidate."""
    search_cells: int
    judgement: Design
    """The final comparison, on tasks that the search never sees."""
    ablation_cells: int
    budget: float | None
    """US dollars for the entire search, or None for no limit."""
    cost: float | None
    """US dollars: 0 for free models, or None if nothing is known except that the budget covers it."""

    @property
    def cells(self) -> int:
        """Total number of runs, excluding the proposer's."""
        return self.search_cells + self.judgement.cells + self.ablation_cells

    def __repr__(self) -> str:
        free = self.cost == 0
        cost = "nothing" if free else "unknown" if self.budget is None else f"at most ${self.budget:g}, the budget"
        tasks, looks = pluralize(self.searched, "task"), pluralize(self.folds, "look")
        judgement = self.judgement
        return "\n".join(
            [
                f"Search: at most {pluralize(self.proposals, 'proposal')}, each tried on up to {tasks} in {looks}: "
                f"at most {self.search_cells:,} runs",
                f"Judgement, once, on {pluralize(judgement.tasks, 'task')} that the search never sees: "
                f"{judgement.cells:,} runs. "
                f"Minimum detectable effect: {describe_effect(judgement)} ({explain_ground(judgement)})",
                f"Ablation of each line on the tasks of the search: at most {self.ablation_cells:,} runs",
                f"In total: at most {self.cells:,} runs, plus one run of the proposer per proposal. Cost: {cost}",
            ]
        )
