"""Variants of experiments for use in figures: rows or runs by variant name, and their appearance.

Results and comparisons are recognized by their attributes, since plots do not import experiments.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Any, NamedTuple, cast

from agentnb.core.log.run_tags import VARIANT_TAG, find_tag
from agentnb.core.messages import pluralize
from agentnb.detect.run import Run
from agentnb.errors import SettingsError
from agentnb.interchange.files import load_traces
from agentnb.plots.drawing.plot_style import distinct
from agentnb.plots.drawing.several import SIGNS
from agentnb.plots.experiments.protocols import ArmRow, ComparisonLike, ResultsLike

UNTAGGED = "(no variant)"
COST, TOKENS = "cost", "tokens"
MAX_CURVES = len(SIGNS)
"""Maximum number of variants in a figure with curves, so that they can be distinguished."""
MARKED = tuple([(SIGNS[index % MAX_CURVES][0], marker) for index, marker in enumerate("os^DvPX<>pd*")])
"""Colour and marker of each variant in a figure with points; their number limits the variants drawn."""
UNITS = {"cost": "US dollars", "seconds": "seconds", "tokens": "tokens", "rounds": "rounds"}
"""Units of measures; checks have none."""


class Sign(NamedTuple):
    """The appearance of a variant."""

    color: str
    marker: str
    dashes: str


def comparisons_of(source: object, plot: str) -> list[ComparisonLike]:
    """Return the comparisons in the source. Raises `SettingsError` for anything else."""
    comparisons = [source] if is_comparison(source) else [*source] if isinstance(source, list | tuple) else [None]
    if not all(is_comparison(item) for item in comparisons):
        raise SettingsError(
            f"plots.{plot} draws comparisons, not {type(source).__name__}",
            f"Pass the result of compare: plots.{plot}(compare(results, A, B))",
        )
    return cast("list[ComparisonLike]", comparisons)


def one_comparison(source: object, plot: str) -> ComparisonLike:
    """Return the comparison in the source. Raises `SettingsError` for several comparisons, and for anything else."""
    comparisons = comparisons_of(source, plot)
    if len(comparisons) != 1:
        raise SettingsError(f"plots.{plot} draws one comparison, got {len(comparisons):,}", "Give one of them")
    return comparisons[0]


def is_comparison(source: object) -> bool:
    """True for a comparison of two variants."""
    return hasattr(source, "rows_a") and hasattr(source, "rows_b")


def is_results(source: object) -> bool:
    """True for the results of an experiment."""
    return hasattr(source, "check_open") and hasattr(source, "variants")


def rows_by_variant(source: object) -> dict[str, Sequence[ArmRow]] | None:
    """Return the rows of results or comparisons by variant, or None for a source of runs.

    Raises `SettingsError` while the results are covered.
    """
    arms = _arms_of(source)
    return None if arms is None else {name: rows for name, (rows, _) in arms.items()}


def runs_by_variant(source: Any) -> dict[str, list[Run]]:
    """Return runs by variant: from results or comparisons, otherwise by their tags ``variant:NAME``.

    If no run has such a tag, all belong to one variant with an empty name.
    """
    arms = _arms_of(source)
    if arms is not None:
        return {name: [holder.run(row.run_id) for row in rows if row.run_id] for name, (rows, holder) in arms.items()}
    return runs_by_tag(load_traces(source))


def runs_by_tag(runs: Sequence[Run]) -> dict[str, list[Run]]:
    """Return runs by the variant in their tags, sorted by name."""
    names = [find_tag(run.tags, VARIANT_TAG) for run in runs]
    groups: dict[str, list[Run]] = {name: [] for name in sorted({*names})}
    for run, name in zip(runs, names, strict=True):
        groups[name].append(run)
    return {name or (UNTAGGED if len(groups) > 1 else ""): group for name, group in groups.items()}


def _arms_of(source: object) -> dict[str, tuple[Sequence[ArmRow], ComparisonLike | ResultsLike]] | None:
    if is_results(source):
        results = cast("ResultsLike", source)
        results.check_open()
        return {name: (results.of(name), results) for name in results.variants}
    comparisons = [source] if is_comparison(source) else source
    if not isinstance(comparisons, list | tuple) or not comparisons or not all(map(is_comparison, comparisons)):
        return None
    arms: dict[str, tuple[Sequence[ArmRow], ComparisonLike | ResultsLike]] = {}
    for comparison in cast("Sequence[ComparisonLike]", comparisons):
        arms.setdefault(comparison.a, (comparison.rows_a, comparison))
        arms.setdefault(comparison.b, (comparison.rows_b, comparison))
    return arms


def measure_of(costs: Collection[float | None]) -> str:
    """Return the measure to draw: cost if every cost is known and any is above 0, otherwise tokens."""
    return COST if None not in costs and any(costs) else TOKENS


def signs_of(names: Sequence[str]) -> list[tuple[str, str, Sign]]:
    """Return the variants to draw, at most `MAX_CURVES`, each with its label and appearance."""
    labels = distinct([*names], 30)
    return [(name, label, Sign(*sign)) for name, label, sign in zip(names, labels, SIGNS, strict=False)]


def omission_note(names: Sequence[str]) -> list[str]:
    """Return a note about the variants that are left out."""
    more = len(names) - MAX_CURVES
    return [f"{pluralize(more, 'more variant')} {'is' if more == 1 else 'are'} not drawn"] if more > 0 else []


def tasks_range(counts: Iterable[int]) -> str:
    """Format numbers of tasks: ``n = 30 tasks`` or, if they differ, ``n = 12 to 30 tasks``."""
    distinct_counts = sorted({*counts})
    if len(distinct_counts) > 1:
        return f"n = {distinct_counts[0]:,} to {distinct_counts[-1]:,} tasks"
    return f"n = {pluralize(distinct_counts[0] if distinct_counts else 0, 'task')}"
