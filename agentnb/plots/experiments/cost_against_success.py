"""Cost against success, by variant."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from agentnb.core.log.run_tags import task_means
from agentnb.core.messages import pluralize
from agentnb.detect.intervals import Share, mean_interval
from agentnb.errors import SettingsError
from agentnb.plots.cost import dollars
from agentnb.plots.drawing.plot_style import WHITE, amounts, distinct, empty, finish, panels, plot_style
from agentnb.plots.experiments.arms import COST, MARKED, TOKENS, UNITS, is_results, measure_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from agentnb.plots.experiments.protocols import ResultsLike

TITLE = "Cost against success"
CLOSE_SHARE = 0.5
"""If the smallest value exceeds this share of the largest, the axis does not begin at 0."""


class VariantPoint(NamedTuple):
    """A variant, with the cost and success of its runs."""

    name: str
    runs: int
    spent: Share
    success: Share


def cost_against_success(results: ResultsLike) -> Figure:
    """Draw each variant at its mean cost per run and its mean primary outcome, with 95 per cent intervals.

    Takes the results of an experiment. If any cost is unknown or all are 0, tokens are drawn instead, and the figure
    says so. If tasks have several runs, intervals are by task. Raises `SettingsError` while the results are covered.
    """
    if not is_results(results):
        raise SettingsError(
            f"plots.cost_against_success draws results, not {type(results).__name__}",
            "Pass the results of the experiment: plots.cost_against_success(await exp.run())",
        )
    results.check_open()
    rows = {name: results.of(name) for name in results.variants}
    measure = measure_of([row.cost for row in results.rows if row.rounds])
    means = results.means()
    points = []
    for name, group in rows.items():
        spent = sorted(task_means(group, measure).values())  # sorted, so that resampling does not depend on the order of runs
        points.append(VariantPoint(name, len(group), mean_interval(spent), means[name]))
    complete = [point for point in points if point.spent.value is not None and point.success.value is not None]
    heading = f"{results.primary}: n = {pluralize(len(results.rows), 'run')}"
    heading += f" of {pluralize(len({row.task for row in results.rows}), 'task')}"
    if not complete:
        sentence = f"Neither cost nor tokens are known, or no run has a known {results.primary}."
        return empty(TITLE, heading, sentence if results.rows else "There are no runs.")
    shown = complete[: len(MARKED)]
    with plot_style():
        figure, (axes,) = panels(3.4)
        labels = distinct([f"{point.name} (n = {pluralize(point.runs, 'run')})" for point in shown], 44)
        lines = [_draw(axes, point, labels[index], index, len(shown)) for index, point in enumerate(shown)]
        _scale_spent(axes, shown, measure)
        axes.set_xlabel("US dollars per run (mean)" if measure == COST else "tokens per run (mean)")
        _scale_success(axes, shown, results.primary)
        notes = ["Lines: 95 % intervals. They say nothing about differences: see plots.differences"]
        if measure == TOKENS:
            notes.append("Tokens instead of cost: the cost is 0, or unknown for some runs")
        if unknown := sum(row.value(measure) is None for row in results.rows):
            notes.append(f"{pluralize(unknown, 'run')} without known {measure}: the means leave them out")
        if names := [point.name for point in points if point not in shown]:
            notes.append(f"Not drawn: {', '.join(names)}")
        says = "; ".join(map(_describe_dollars if measure == COST else _describe_tokens, shown))
        return finish(figure, TITLE, heading, lines, notes, says)


def _draw(axes: Axes, point: VariantPoint, label: str, index: int, variants: int) -> Any:
    """Draw a variant with both of its intervals, and return its marker for the legend."""
    color, marker = MARKED[index]
    x, y = point.spent.value, point.success.value
    assert x is not None and y is not None, "variants without a value are not drawn"
    if point.spent.low is not None and point.spent.high is not None:
        axes.hlines(y, point.spent.low, point.spent.high, color=color, linewidth=1.4)
    if point.success.low is not None and point.success.high is not None:
        axes.vlines(x, point.success.low, point.success.high, color=color, linewidth=1.4)
    size = 8.0 + min(variants - 1 - index, 4)  # lower points are larger, so that equal points all show
    look: dict[str, Any] = {"color": color, "markersize": size, "clip_on": False, "zorder": 3, "markeredgecolor": WHITE}
    (mark,) = axes.plot([x], [y], marker, linestyle="none", label=label, **look)
    return mark


def _scale_spent(axes: Axes, shown: Sequence[VariantPoint], measure: str) -> None:
    """Scale the axis of costs from 0, or around its values if they are close together."""
    ends = [end for point in shown for end in point.spent if end is not None]
    low, high = min(ends), max(ends)
    pad = 0.15 * (high - low) or 0.1 * high
    start, end = (0.0, 1.08 * high) if low < CLOSE_SHARE * high else (low - pad, high + pad)
    amounts(axes, "x", end, low=start, prefix="$" if measure == COST else "")


def _scale_success(axes: Axes, shown: Sequence[VariantPoint], primary: str) -> None:
    """Scale the axis of the primary from 0 to 1, or to the range of its values."""
    ends = [end for point in shown for end in point.success if end is not None]
    unit = f" ({UNITS[primary]})" if UNITS.get(primary, primary) != primary else ""
    amounts(axes, "y", 1.0 if max(ends) <= 1 else 1.08 * max(ends), low=min(0.0, 1.08 * min(ends)))
    axes.set_ylabel(f"mean of {primary}{unit}")


def _describe_dollars(point: VariantPoint) -> str:
    return f"{point.name}: {dollars(point.spent.value or 0.0)} a run, {point.success.value:.2f}"


def _describe_tokens(point: VariantPoint) -> str:
    return f"{point.name}: {point.spent.value:,.0f} tokens a run, {point.success.value:.2f}"
