"""Outcomes of runs, by source of the outcome."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from agentnb.core.log.outcome import SOURCES
from agentnb.core.messages import pluralize
from agentnb.interchange.files import RunSource, load_traces
from agentnb.plots.drawing.plot_style import (
    BLUE,
    VERMILLION,
    WHITE,
    Look,
    empty,
)
from agentnb.plots.drawing.run_bars import RunBar, draw_run_bars
from agentnb.plots.drawing.sources import about

if TYPE_CHECKING:
    from matplotlib.figure import Figure

TITLE = "Outcomes of runs"
LOOKS = {"passed": Look("passed", BLUE), "failed": Look("failed", VERMILLION, "///"), "unknown": Look("unknown", WHITE, "ooo")}
"""Appearance by outcome."""
NOTHING = "not recorded"


def outcomes(source: RunSource) -> Figure:
    """Draw the number of runs that passed and failed, by source of the outcome; unknown outcomes have bars of their
    own.

    Takes what the tables take. docs/runs.md explains outcomes; `ends` draws how runs ended.
    """
    runs = load_traces(source)
    if not runs:
        return empty(TITLE, about(runs), "There are no runs.")
    counts = Counter((run.outcome, run.outcome_from) for run in runs)
    order = [*LOOKS], [None, *SOURCES]
    bars = sorted(counts.items(), key=lambda item: (order[0].index(item[0][0]), order[1].index(item[0][1])))
    known_count = sum(count for (outcome, _), count in bars if outcome != "unknown")
    drawn = [
        RunBar(
            f"{outcome}: {origin or NOTHING}",
            LOOKS[outcome],
            count,
            f"{count:,}" if outcome == "unknown" else f"{count:,} ({count / known_count:.0%})",
        )
        for (outcome, origin), count in bars
    ]
    shares = f"runs; shares are of the {pluralize(known_count, 'run')} with a known outcome"
    return draw_run_bars(TITLE, about(runs), drawn, LOOKS.values(), shares)
