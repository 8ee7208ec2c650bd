"""Differences between variants, with intervals and minimum detectable effects: a forest plot."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from agentnb.core.messages import pluralize
from agentnb.errors import SettingsError
from agentnb.plots.drawing.plot_style import (
    BLUE,
    FAINT,
    INK,
    MAX_BARS,
    VERMILLION,
    WHITE,
    amounts,
    bar_axis,
    clean,
    distinct,
    empty,
    finish,
    panels,
    plot_style,
)
from agentnb.plots.experiments.arms import UNITS, comparisons_of, tasks_range
from agentnb.plots.experiments.protocols import ComparisonLike, Comparisons

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

TITLE = "Differences between variants"
MDE_OFFSET = 0.24
"""Offset of a minimum detectable effect below its interval, in rows."""
_CHARACTERS = 46
"""Maximum characters of a line of text beside the intervals."""


def differences(comparisons: Comparisons) -> Figure:
    """Draw the difference in each comparison, with its 95 per cent interval, and a line at 0.

    Takes what `agentnb.compare` returns: one comparison or several, of one primary or of checks. If no
    difference is shown, the minimum detectable effect is drawn too. For a comparison without numbers, the figure says what is
    missing. Raises `SettingsError` for measures of different units.
    """
    rows = comparisons_of(comparisons, "differences")
    if not rows:
        return empty(TITLE, "No comparison", "There are no comparisons.")
    unit = _unit(rows)
    shown = rows[:MAX_BARS]
    primaries = [*dict.fromkeys(comparison.primary for comparison in rows)]
    names = [
        f"{comparison.a} \N{MINUS SIGN} {comparison.b}" + (f", {comparison.primary}" if len(primaries) > 1 else "")
        for comparison in shown
    ]
    with plot_style():
        figure, (axes, texts) = panels(0.75 + 0.56 * len(shown), (6, 5))
        reach = _reach(shown)
        amounts(axes, "x", reach, low=-reach)
        axes.axvline(0, color=INK, linewidth=1, zorder=1)
        drawn: dict[str, Any] = {}
        for y, comparison in enumerate(shown):
            _draw(axes, y, comparison, drawn)
            style: dict[str, Any] = {"color": FAINT, "style": "italic"} if comparison.missing else {}
            texts.text(0, y, "\n".join(_beside(comparison)), va="center", fontsize=8, linespacing=1.3, **style)
        bar_axis(axes, distinct(names, 34))
        axes.set_xlabel(f"difference in {clean(primaries[0]) if len(primaries) == 1 else 'each check'}{unit}")
        texts.set_axis_off()
        heading = f"{', '.join(primaries)}: the first variant minus the second, paired by task; "
        heading += tasks_range(comparison.tasks for comparison in rows)
        notes = [f"{len(rows) - len(shown)} more comparisons are not drawn"] if len(rows) > len(shown) else []
        if any(comparison.p_adjusted is not None for comparison in shown):
            notes.append("Intervals are unadjusted; p values are Holm-adjusted")
        says = "; ".join(
            f"{name}: {comparison.missing or ', '.join(_beside(comparison))}"
            for name, comparison in zip(names, shown, strict=True)
        )
        return finish(figure, TITLE, heading, [*drawn.values()], notes, says)


def _unit(rows: Sequence[ComparisonLike]) -> str:
    units = {UNITS.get(comparison.primary, "") for comparison in rows}
    if len(units) > 1:
        primaries = ", ".join(dict.fromkeys(comparison.primary for comparison in rows))
        raise SettingsError(f"{primaries} do not share a unit", "Draw the comparisons of each check separately")
    (unit,) = units
    return f" ({unit})" if unit else ""


def _reach(rows: Sequence[ComparisonLike]) -> float:
    """Return the extent of the axis on either side of 0."""
    ends = [
        end
        for comparison in rows
        if comparison.difference is not None
        for end in (comparison.difference, *(comparison.interval or ()))
    ]
    ends += [comparison.mde for comparison in rows if comparison.mde is not None and not comparison.is_shown]
    return 1.08 * max(map(abs, ends), default=0) or 1.0


def _draw(axes: Axes, y: int, comparison: ComparisonLike, drawn: dict[str, Any]) -> None:
    """Draw a comparison in its row, and add its legend entries to ``drawn``."""
    if comparison.difference is None or comparison.missing:
        return
    is_shown = comparison.is_shown
    if comparison.interval is not None:
        axes.hlines(y, *comparison.interval, color=BLUE, linewidth=2, zorder=3)
        axes.plot(comparison.interval, [y] * 2, "|", color=BLUE, markersize=8, clip_on=False, zorder=3)
    label = "difference with its 95 % interval" if is_shown else "no difference is shown"
    fill: dict[str, Any] = {"markerfacecolor": BLUE if is_shown else WHITE, "markeredgewidth": 1.6}
    (drawn[label],) = axes.plot([comparison.difference], [y], "o", color=BLUE, markersize=7, zorder=4, label=label, **fill)
    if comparison.mde is not None and not is_shown:
        label = "minimum detectable effect (80 % power)"
        look: dict[str, Any] = {"color": VERMILLION, "marker": "|", "linewidth": 1.2, "markersize": 6, "label": label}
        (drawn[label],) = axes.plot([-comparison.mde, comparison.mde], [y + MDE_OFFSET] * 2, "--", **look)


def _beside(comparison: ComparisonLike) -> list[str]:
    """Return the lines of text beside a comparison: its numbers, or the reason why they are missing."""
    if comparison.difference is None or comparison.missing:
        return [f"n = {pluralize(comparison.tasks, 'task')}", *textwrap.wrap(clean(comparison.missing), _CHARACTERS)]
    p_value = comparison.p_value if comparison.p_adjusted is None else comparison.p_adjusted
    limits = (
        "the same in each task"
        if comparison.interval is None
        else f"[{_format_signed(comparison.interval[0])}, {_format_signed(comparison.interval[1])}]"
    )
    shown = "" if p_value is None else f", p {'< 0.001' if p_value < 0.001 else f'= {p_value:.2g}'}"
    shown += "" if comparison.p_adjusted is None or p_value is None else " (Holm)"
    lines = [f"{_format_signed(comparison.difference)} {limits}", f"n = {pluralize(comparison.tasks, 'task')}{shown}"]
    return [*lines, f"detectable: {comparison.mde:.2g}"] if comparison.mde is not None and not comparison.is_shown else lines


def _format_signed(value: float) -> str:
    """Format a number with its sign and three digits; a rounding error near 0 becomes 0."""
    return f"{round(value, 12) + 0.0:+.3g}"
