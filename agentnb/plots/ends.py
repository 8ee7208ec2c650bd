"""How runs ended: by status and stop reason."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from agentnb.interchange.files import RunSource, load_traces
from agentnb.plots.drawing.sources import about
from agentnb.plots.drawing.style import (
    BLUE,
    GREEN,
    LINES,
    MAX_BARS,
    ORANGE,
    PURPLE,
    VERMILLION,
    WHITE,
    Look,
    amounts,
    bar_axis,
    bar_label,
    distinct,
    empty,
    finish,
    panels,
    plot_style,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

TITLE = "How runs ended"
LOOKS = {
    "completed": Look("completed", BLUE),
    "limited": Look("limited", ORANGE, "..."),
    "stopped": Look("stopped", PURPLE, "\\\\\\"),
    "cancelled": Look("cancelled", LINES, "---"),
    "failed": Look("failed", VERMILLION, "///"),
    "interrupted": Look("interrupted", WHITE, "xxx"),
    "unknown": Look("end not recorded", WHITE, "ooo"),
    "waiting_on_user": Look("waiting on user", GREEN, "|||"),
    "running": Look("running", GREEN),
}
"""By status."""


def ends(source: RunSource) -> Figure:
    """Draw how many runs ended for which reason, coloured by their status.

    Takes what the tables take. docs/runs.md explains statuses and stop reasons.
    """
    runs = load_traces(source)
    if not runs:
        return empty(TITLE, about(runs), "There are no runs.")
    counts = Counter((run.status, run.stop_reason or LOOKS[run.status].label) for run in runs)
    order = list(LOOKS)
    bars = sorted(counts.items(), key=lambda item: (order.index(item[0][0]), -item[1], item[0][1]))
    shown, rest = (bars, []) if len(bars) <= MAX_BARS else (bars[: MAX_BARS - 1], bars[MAX_BARS - 1 :])
    names = distinct([reason.replace("_", " ") for (_, reason), _ in shown], 34)
    if rest:
        names.append(f"and {len(rest)} others")
    with plot_style():
        figure, (axes,) = panels(0.7 + 0.27 * len(names))
        others = sum(count for _, count in rest)
        for place, ((status, _), count) in enumerate(shown):
            axes.barh(place, count, 0.72, label=LOOKS[status].label, zorder=2, **LOOKS[status].fill)
            bar_label(axes, place, count, f"{count:,} ({count / len(runs):.0%})")
        if rest:
            axes.barh(len(shown), others, 0.72, zorder=2, facecolor=WHITE, edgecolor="black", linewidth=0.6)
            bar_label(axes, len(shown), others, f"{others:,} ({others / len(runs):.0%})")
        bar_axis(axes, names)
        amounts(axes, "x", max(*(count for _, count in shown), others, 1) * 1.25, whole=True)
        axes.set_xlabel("runs")
        looks = [look for status, look in LOOKS.items() if any(found == status for (found, _), _ in shown)]
        described = "; ".join(f"{name}: {count:,}" for name, (_, count) in zip(names, shown, strict=False))
        return finish(figure, TITLE, about(runs), looks, says=described)
