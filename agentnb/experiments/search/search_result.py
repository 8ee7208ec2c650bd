"""The result of a search: the best guidance, its gain in the judgement, and the effect of each new line."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from agentnb.display.texts.labels import pluralize
from agentnb.experiments.results.comparison import Comparison, comparison_lines, find_sign, format_with_limits
from agentnb.experiments.search.candidates import Line
from agentnb.experiments.search.proposals import Trial
from agentnb.guidance.sets import GuidanceSet

NO_GAIN = "No gain is claimed"
EXPLORATORY = "exploratory: on the tasks used to choose the line"


class Ablation(NamedTuple):
    """The best set compared with itself minus one line, on the tasks of the search. Exploratory."""

    line: Line
    comparison: Comparison | None
    """The best set minus the set without the line, or None if the budget did not cover the runs."""

    @property
    def effect(self) -> str:
        """The effect of the line, in words."""
        if self.comparison is None:
            return "not tried without it: the budget was reached"
        if self.comparison.difference is None or self.comparison.interval is None:
            return f"{self.comparison.missing or comparison_lines(self.comparison)[0]} ({EXPLORATORY})"
        return f"with it {format_with_limits(self.comparison.difference, self.comparison.interval)} ({EXPLORATORY})"

    def __repr__(self) -> str:
        return f"{self.line.part}: {self.line.text}\n  {self.effect}"


@dataclass(frozen=True)
class SearchResult:
    """The result of a search. Only the judgement estimates the gain; all other numbers were used for selecting candidates."""

    id: str
    start: GuidanceSet = field(repr=False)
    best: GuidanceSet
    trials: tuple[Trial, ...] = field(repr=False)
    """The proposals in order, each with its result."""
    judgement: Comparison | None = field(repr=False)
    """Best minus start, on tasks that the search never saw, or None if there is no better candidate or runs are missing."""
    ablations: tuple[Ablation, ...] = field(repr=False)
    runs: int
    spent: float
    """US dollars, including the cost of proposals, as far as costs are known."""
    notes: tuple[str, ...] = ()

    @property
    def gain(self) -> float | None:
        """Best minus start in the judgement, or None if there is no judgement."""
        return None if self.judgement is None else self.judgement.difference

    @property
    def claims_gain(self) -> bool:
        """True if the judgement shows that the best set is better than the initial one."""
        return self.judgement is not None and find_sign(self.judgement.analysis) > 0

    @property
    def extent(self) -> str:
        """The number of proposals and runs, and the cost, in words."""
        accepted = sum(trial.accepted for trial in self.trials)
        spent = f", spent ${self.spent:.4g}" if self.spent else ""
        return f"{accepted} of {pluralize(len(self.trials), 'proposal')} accepted, {pluralize(self.runs, 'run')}{spent}"

    def __repr__(self) -> str:
        judged = [] if self.claims_gain else [NO_GAIN]
        judged += comparison_lines(self.judgement) if self.judgement is not None else []
        return "\n".join([f"Search {self.id}: {self.extent}", *judged, *map(repr, self.ablations), *self.notes])
