"""Bars that count runs: one bar for each group, with its share."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from agentnb.plots.drawing.plot_style import WHITE, Look, amounts, bar_axis, bar_label, finish, panels, plot_style

if TYPE_CHECKING:
    from matplotlib.figure import Figure


class RunBar(NamedTuple):
    """The bar of a group of runs."""

    name: str
    look: Look | None
    """Appearance, or None for the bar that sums up the groups left out."""
    runs: int
    label: str


def draw_run_bars(title: str, about: str, bars: Sequence[RunBar], looks: Iterable[Look], xlabel: str = "runs") -> Figure:
    """Return a figure with these bars, from the top down. ``looks``: possible entries of the legend, in order."""
    with plot_style():
        figure, (axes,) = panels(0.7 + 0.27 * len(bars))
        for y, bar in enumerate(bars):
            if bar.look is None:
                axes.barh(y, bar.runs, 0.72, zorder=2, facecolor=WHITE, edgecolor="black", linewidth=0.6)
            else:
                axes.barh(y, bar.runs, 0.72, label=bar.look.label, zorder=2, **bar.look.fill)
            bar_label(axes, y, bar.runs, bar.label)
        bar_axis(axes, [bar.name for bar in bars])
        amounts(axes, "x", max(*(bar.runs for bar in bars), 1) * 1.25, whole=True)
        axes.set_xlabel(xlabel)
        described = "; ".join(f"{bar.name}: {bar.runs:,}" for bar in bars if bar.look is not None)
        return finish(figure, title, about, [look for look in looks if any(bar.look is look for bar in bars)], says=described)
