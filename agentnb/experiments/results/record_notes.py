"""Notes on results and comparisons, taken from the record of their experiment: its rows and its plan."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from math import comb

from agentnb.display.texts.labels import pluralize
from agentnb.experiments.results.experiment_folder import Plan
from agentnb.experiments.results.rows import Row


def notes_of_rows(rows: Sequence[Row], variants: Sequence[str] = ()) -> Iterator[str]:
    """Yield the notes on runs with unanswered questions or exhausted limits. ``variants``: names of the variants by which to
    count the runs.
    """
    unanswered = [row for row in rows if row.unanswered]
    if unanswered:
        yield f"nobody answered the questions of {pluralize(len(unanswered), 'run')}{_by_variant(unanswered, variants)}"
    limited = [row for row in rows if row.status == "limited"]
    if limited:
        limits = ", ".join(f"{count} x {name}" for name, count in Counter(row.stop_reason for row in limited).most_common())
        yield f"{pluralize(len(limited), 'run')} reached a limit: {limits}{_by_variant(limited, variants)}"


def comparison_notes(plan: Plan, primary: str, variants: int, comparisons: int) -> Iterator[str]:
    """Yield notes on a comparison that deviates from the frozen one, or is one of several that could be made.

    ``comparisons``: number of comparisons for which the p value is adjusted.
    """
    frozen = plan.frozen.get("primary", primary)
    if frozen != primary:
        yield f"the primary was frozen as {frozen}, and {primary} was chosen later"
    if comparisons == 1 and variants > 2:
        text = f"one of {comb(variants, 2)} comparisons of these {variants} variants, unadjusted"
        yield f"{text}; compare(RESULTS) makes and adjusts (Holm) the {variants - 1} with the first variant"


def _by_variant(rows: Iterable[Row], variants: Iterable[str]) -> str:
    counts = Counter(row.variant for row in rows)
    text = ", ".join(f"{name!r} {counts[name]}" for name in variants)
    return f" ({text})" if text else ""
