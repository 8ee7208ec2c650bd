"""Whether runs did what they should, and what says so."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from agentnb.core.log.outcome import SOURCES
from agentnb.interchange.files import RunSource, load_traces
from agentnb.plots.drawing.sources import about
from agentnb.plots.drawing.style import (
    BLUE,
    VERMILLION,
    WHITE,
    Look,
    amounts,
    bar_axis,
    bar_label,
    counted,
    empty,
    finish,
    panels,
    plot_style,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

TITLE = "Whether runs did what they should"
LOOKS = {"passed": Look("passed", BLUE), "failed": Look("failed", VERMILLION, "///"), "unknown": Look("unknown", WHITE, "ooo")}
"""By outcome."""
NOTHING = "nothing says it"


def outcomes(source: RunSource) -> Figure:
    """Draw how many runs passed and failed, by what says so; runs whose outcome is unknown stand apart.

    Takes what the tables take. docs/runs.md explains outcomes, `ends` draws how runs ended.
    """
    runs = load_traces(source)
    if not runs:
        return empty(TITLE, about(runs), "There are no runs.")
    counts = Counter((run.outcome, run.outcome_from) for run in runs)
    order = [*LOOKS], [None, *SOURCES]
    bars = sorted(counts.items(), key=lambda item: (order[0].index(item[0][0]), order[1].index(item[0][1])))
    names = [f"{outcome}: {origin or NOTHING}" for (outcome, origin), _ in bars]
    known = sum(count for (outcome, _), count in bars if outcome != "unknown")
    with plot_style():
        figure, (axes,) = panels(0.7 + 0.27 * len(names))
        for place, ((outcome, _), count) in enumerate(bars):
            axes.barh(place, count, 0.72, label=LOOKS[outcome].label, zorder=2, **LOOKS[outcome].fill)
            of_known = f" ({count / known:.0%})" if outcome != "unknown" else ""
            bar_label(axes, place, count, f"{count:,}{of_known}")
        bar_axis(axes, names)
        amounts(axes, "x", max(count for _, count in bars) * 1.25, whole=True)
        axes.set_xlabel(f"runs; shares are of the {counted(known, 'run')} with a known outcome")
        looks = [look for outcome, look in LOOKS.items() if any(found == outcome for (found, _), _ in bars)]
        described = "; ".join(f"{name}: {count:,}" for name, (_, count) in zip(names, bars, strict=True))
        return finish(figure, TITLE, about(runs), looks, says=described)
