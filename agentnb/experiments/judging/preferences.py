"""Preferences between two runs of a task: a judge's choices, each made twice with the sides swapped, and the number of pairs
that favour each variant.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, TypeAlias

from agentnb.display.texts.labels import pluralize
from agentnb.experiments.planning.judge_verdicts import UNKNOWN
from agentnb.experiments.results.comparison import Comparison, format_with_limits
from agentnb.experiments.results.rows import Row
from agentnb.experiments.statistics.paired import Difference, estimate_difference
from agentnb.experiments.statistics.task_values import TooFewTasks

if TYPE_CHECKING:
    import pandas as pd

RUN_1, RUN_2 = "run_1", "run_2"
"""Names of the two runs of a pair as a judge sees them, by side."""
TIE: Literal["tie"] = "tie"
Choice: TypeAlias = Literal["a", "b", "tie"] | None
"""The better run of two, or None if unknown."""
SHARES: dict[Choice, tuple[list[float], list[float]]] = {"a": ([1], [0]), "b": ([0], [1]), TIE: ([0], [0]), None: ([], [])}
"""The contribution of a choice to the shares of a and b."""


def agree(answer: str, swapped: str) -> Choice:
    """Combine two answers, the second given with the sides swapped; a tie if they disagree."""
    if UNKNOWN in (answer, swapped):
        return None
    return {(RUN_1, RUN_2): "a", (RUN_2, RUN_1): "b"}.get((answer, swapped), TIE)  # type: ignore[return-value]


@dataclass(frozen=True)
class Preferences:
    """A judge's choices between the runs of each pair in a comparison."""

    a: str
    b: str
    table: pd.DataFrame = field(repr=False)
    """A row per pair, with ``task``, ``model``, ``repeat``, ``run_a``, ``run_b``, and ``choice``: a, b, tie, or missing."""
    analysis: Difference | TooFewTasks
    """Share of choices for a minus share for b, paired by task, with equal weight for each task."""

    @property
    def counts(self) -> dict[str, int]:
        """Number of pairs by choice."""
        choices = self.table.choice.fillna(UNKNOWN)
        return {name: int((choices == name).sum()) for name in ("a", "b", TIE, UNKNOWN)}

    def __repr__(self) -> str:
        counts = ", ".join(f"{count} {name}" for name, count in self.counts.items())
        head = f"{pluralize(len(self.table), 'pair')} of {self.a} (a) and {self.b} (b): {counts}"
        analysis = self.analysis
        if isinstance(analysis, TooFewTasks):
            return f"{head}\n{analysis.shortage}: {analysis.remedy}"
        share = format_with_limits(analysis.value, analysis.interval)
        return f"{head}\nShare for a minus share for b: {share}, p = {analysis.p_value:.3g}"


def preferences_of(comparison: Comparison, pairs: Sequence[tuple[Row, Row]], choices: Sequence[Choice]) -> Preferences:
    """Return the choices for pairs of rows in a comparison, with the resulting estimate."""
    import pandas as pd

    rows = [a for a, _ in pairs]
    analysis = estimate_difference(
        [SHARES[choice][0] for choice in choices],
        [SHARES[choice][1] for choice in choices],
        tasks=[row.task for row in rows],
        clusters=[row.cluster_key for row in rows],
    )
    records = [
        (a.task, a.model, a.repeat + 1, a.run_id, b.run_id, choice) for (a, b), choice in zip(pairs, choices, strict=True)
    ]
    table = pd.DataFrame(records, columns=["task", "model", "repeat", "run_a", "run_b", "choice"])
    return Preferences(comparison.a, comparison.b, table.astype({"choice": "str"}), analysis)
