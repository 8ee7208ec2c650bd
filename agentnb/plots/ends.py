"""Ends of runs, by status and stop reason."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from agentnb.interchange.files import RunSource, load_traces
from agentnb.plots.drawing.run_bars import RunBar, draw_run_bars
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
    distinct,
    empty,
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
    drawn = [
        RunBar(name, LOOKS[status], count, _share(count, len(runs)))
        for name, ((status, _), count) in zip(names, shown, strict=True)
    ]
    if rest:
        others = sum(count for _, count in rest)
        drawn.append(RunBar(f"and {len(rest)} others", None, others, _share(others, len(runs))))
    return draw_run_bars(TITLE, about(runs), drawn, LOOKS.values())


def _share(count: int, total: int) -> str:
    return f"{count:,} ({count / total:.0%})"
