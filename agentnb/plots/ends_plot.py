"""Ends of runs, by status and stop reason."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from agentnb.interchange.files import RunSource, load_traces
from agentnb.plots.drawing.plot_style import (
    BLUE,
    GREEN,
    LINES,
    ORANGE,
    PURPLE,
    VERMILLION,
    WHITE,
    Look,
    distinct,
    empty,
    first_bars,
)
from agentnb.plots.drawing.run_bars import RunBar, draw_run_bars
from agentnb.plots.drawing.sources import about

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
"""Appearance by status."""


def ends(source: RunSource) -> Figure:
    """Draw the number of runs by stop reason, coloured by status.

    Takes what the tables take. docs/runs.md explains statuses and stop reasons.
    """
    runs = load_traces(source)
    if not runs:
        return empty(TITLE, about(runs), "There are no runs.")
    counts = Counter((run.status, run.stop_reason or LOOKS[run.status].label) for run in runs)
    order = list(LOOKS)
    bars = sorted(counts.items(), key=lambda item: (order.index(item[0][0]), -item[1], item[0][1]))
    names = distinct([reason.replace("_", " ") for (_, reason), _ in bars], 34)

    def bar(name: str, look: Look | None, count: int) -> RunBar:
        return RunBar(name, look, count, f"{count:,} ({count / len(runs):.0%})")

    drawn = [bar(name, LOOKS[status], count) for name, ((status, _), count) in zip(names, bars, strict=True)]
    shown = first_bars(drawn, lambda name, others: bar(name, None, sum(other.runs for other in others)))
    return draw_run_bars(TITLE, about(runs), shown, LOOKS.values())
