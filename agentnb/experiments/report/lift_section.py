"""The report's section on guidance sets that were drawn for each round, so that every run mixes sets."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from agentnb.errors import StoreError
from agentnb.experiments.report.document import Block, Grid, Heading, Paragraph
from agentnb.experiments.report.setup import Setup
from agentnb.experiments.results.comparison import format_with_limits
from agentnb.experiments.results.experiment_results import Results
from agentnb.experiments.rounds.lift import lift
from agentnb.experiments.views.numbers import format_p

NO_VARIANT = (
    "A guidance set was drawn for each round, so that every run mixes sets and no variants are compared. The short-term effects"
    " of the sets are below, under Estimates."
)
ANALYSIS = (
    "The effect of a set is the mean of the outcome after its draws minus that after draws of the first set, weighted by the"
    " inverse of the propensity (Hájek), with errors clustered by task",
    "Intervals are 95 % confidence intervals; p values are Holm-adjusted over all effects",
    "Effects are averaged over later draws. They do not extend to whole runs, because the draws also changed later rounds",
)
HEADINGS = ("model", "set", "against", "guidance", "trigger", "draws", "after it", "after the other", "effect", "p, adjusted")


def names_of(results: Results, setup: Setup) -> list[str]:
    """Return the names of the variants, or of the guidance sets drawn for each round."""
    if not results.is_by_round:
        return [variant.name for variant in setup.variants]
    (drawn,) = setup.variants
    return [*(drawn.changes or {})["guidance"].among]


def lift_of(results: Results) -> Iterator[Block]:
    """Yield the effects of the sets on the planned outcome."""
    yield Heading("Effect of each set", is_inner=True)
    try:
        frame = lift(results)
    except StoreError as error:
        yield Paragraph(f"Effects are left out: {error}.")
        return
    effects = frame.astype(object).where(frame.notna(), None).to_dict("records")
    yield Grid(HEADINGS, [_row(effect) for effect in effects], range(5, len(HEADINGS)))
    for effect in effects:
        if effect["unknown"]:
            names = ", ".join(str(effect[name]) for name in ("model", "set", "kind", "trigger"))
            yield Paragraph(f"{names}: {effect['note']}.")
    outcome = results.plan.frozen["near_outcome"]
    yield Paragraph(f"The outcome is {outcome}. An effect without an interval has draws in too few tasks.")


def _row(effect: Mapping[str, Any]) -> list[str]:
    difference, low, high, p_value = (effect[name] for name in ("lift", "lift_low", "lift_high", "p_adjusted"))
    return [
        *[effect[name] for name in ("model", "set", "against", "kind", "trigger")],
        f"{effect['judged']:,} and {effect['judged_without']:,}",
        *["" if effect[name] is None else f"{effect[name]:.3g}" for name in ("share", "anyway")],
        "" if difference is None else format_with_limits(difference, None if low is None else (low, high)),
        "" if p_value is None else format_p(p_value),
    ]
