"""Guidance that was followed and ignored, by cell and level."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from agentnb.core.messages import pluralize
from agentnb.detect.guidance_rules import CELLS
from agentnb.interchange.files import RunSource, load_traces
from agentnb.plots.drawing.plot_style import (
    BLUE,
    LINES,
    ORANGE,
    Look,
    amounts,
    bar_axis,
    bar_label,
    distinct,
    empty,
    finish,
    first_bars,
    panels,
    plot_style,
    stack,
)
from agentnb.plots.drawing.sources import about
from agentnb.tables.guidance_table import guidance as guidance_table

if TYPE_CHECKING:
    from matplotlib.figure import Figure

TITLE = "Guidance followed, by cell and level"
FOLLOWED, IGNORED, UNKNOWN = Look("followed", BLUE), Look("ignored", ORANGE, "///"), Look("not judged", LINES, "...")


class _Bar(NamedTuple):
    cell: str
    level: int
    """The strength, or 0 for the bar that sums up the others."""
    followed: int
    ignored: int
    unknown: int

    @property
    def given(self) -> int:
        return self.followed + self.ignored + self.unknown

    @property
    def label(self) -> str:
        judged = self.followed + self.ignored
        if not judged:
            return "not judged"
        return f"{self.followed:,} of {judged:,} ({self.followed / judged:.0%})"


def guidance(source: RunSource) -> Figure:
    """Draw how often guidance was followed, ignored or not judged, with a bar for each cell and level.

    Takes what the tables take. Labels say how much of the judged guidance was followed. Guidance that only informs,
    or that was sent in a round without a reply, is not judged.
    """
    runs = load_traces(source)
    bars = _bars(guidance_table(runs))
    if not bars:
        return empty(TITLE, about(runs), "No guidance was given." if runs else "There are no runs.")
    shown = first_bars(bars, _sum_up)
    names = distinct([f"{bar.cell}, level {bar.level}" if bar.level else bar.cell for bar in shown], 30)
    with plot_style():
        figure, (axes,) = panels(0.7 + 0.27 * len(shown))
        looks = stack(axes, _parts(shown))
        for y, bar in enumerate(shown):
            bar_label(axes, y, bar.given, bar.label)
        bar_axis(axes, names)
        amounts(axes, "x", max(bar.given for bar in shown) * 1.3, whole=True)
        axes.set_xlabel("times given")
        total = sum(bar.given for bar in bars)
        described = [f"{name}: {bar.label}" for name, bar in zip(names, shown, strict=True)]
        return finish(figure, TITLE, about(runs, f"{pluralize(total, 'piece')} of guidance"), looks, says="; ".join(described))


def _parts(bars: list[_Bar]) -> list[tuple[Look, list[int]]]:
    return [
        (FOLLOWED, [bar.followed for bar in bars]),
        (IGNORED, [bar.ignored for bar in bars]),
        (UNKNOWN, [bar.unknown for bar in bars]),
    ]


def _sum_up(name: str, others: Sequence[_Bar]) -> _Bar:
    return _Bar(name, 0, *(sum(counts) for counts in zip(*(bar[2:] for bar in others), strict=True)))


def _bars(table: Any) -> list[_Bar]:
    """Return the bars: first the four cells, then the others by frequency, each by ascending level."""
    counts: dict[tuple[str, int], Counter[bool | None]] = {}
    for cell, level, followed in zip(table["cell"], table["level"], table["followed"].astype(object), strict=True):
        counts.setdefault((cell, level), Counter())[followed if isinstance(followed, bool) else None] += 1
    bars = [_Bar(cell, level, judged[True], judged[False], judged[None]) for (cell, level), judged in counts.items()]
    cell_totals: Counter[str] = Counter()
    for bar in bars:
        cell_totals[bar.cell] += bar.given
    positions = {cell: index for index, cell in enumerate(CELLS)}
    return sorted(bars, key=lambda bar: (positions.get(bar.cell, len(CELLS)), -cell_totals[bar.cell], bar.cell, bar.level))
