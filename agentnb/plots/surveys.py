"""Survey plots: the runs that each variant would have caught or disturbed, and the rounds it would have saved."""

from __future__ import annotations

from collections.abc import Sequence
from math import isnan
from typing import TYPE_CHECKING, Any, NamedTuple

from agentnb.core.messages import pluralize
from agentnb.plots.drawing.plot_style import (
    BLUE,
    MAX_BARS,
    VERMILLION,
    amounts,
    bar_axis,
    distinct,
    empty,
    finish,
    panels,
    plot_style,
)
from agentnb.plots.drawing.sources import check_columns

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

TITLE = "Replayed variants: runs caught and disturbed"
VARIANT = ("guidance", "policy", "detect", "limits")
"""Columns that identify a variant."""


class Series(NamedTuple):
    """A kind of run in a survey: its columns and its appearance."""

    label: str
    share: str
    rounds: str
    color: str
    marker: str
    beside: float
    """Vertical offset within a row, so that series do not overlap."""


SERIES = (
    Series("failed runs caught, and their rounds saved", "caught_share", "rounds_saved_mean", BLUE, "o", -0.14),
    Series("healthy runs disturbed, and their rounds cut", "disturbed_share", "rounds_cut_mean", VERMILLION, "s", 0.14),
)


def survey(table: pd.DataFrame) -> Figure:
    """Draw a table that `agentnb.survey` returned: a row for each variant, with 95 per cent intervals by run.

    On the left are the shares of failed runs that it would have caught and of healthy runs that it would have
    disturbed; on the right are the rounds per run that it would have saved or cut off. Raises `SettingsError` for
    another table.
    """
    check_columns(
        table,
        {*VARIANT, "failures", "healthy", "caught_share_low", "rounds_cut_mean"},
        "survey",
        "Pass the table of survey: plots.survey(survey('traces/', policy=['matrix', 'minimal']))",
    )
    if not len(table):
        return empty(TITLE, "No variant", "The table has no rows.")
    rows = table.head(MAX_BARS).to_dict("records")
    names = _names(rows)
    with plot_style():
        figure, (shares, rounds) = panels(0.9 + 0.42 * len(rows), (3, 2))
        drawn = [line for series in SERIES if (line := _draw(shares, rounds, rows, series)) is not None]
        bar_axis(shares, distinct(names, 34))
        rounds.grid(visible=False, axis="y")
        amounts(shares, "x", 1.0, most=5)
        shares.set_xlim(-0.03, 1.03)
        shares.set_xlabel("share of runs")
        rounds.tick_params(axis="y", length=0)
        ends = [row[f"{series.rounds}{end}"] for row in rows for series in SERIES for end in ("", "_high")]
        amounts(rounds, "x", 1.08 * max((end for end in ends if not isnan(end)), default=0.0), most=4)
        rounds.set_xlim(left=-0.03 * rounds.get_xlim()[1])
        rounds.set_xlabel("rounds of a run")
        first = rows[0]
        heading = f"n = {pluralize(first['runs'], 'run')}: {first['failures']:,} failed, {first['healthy']:,} healthy"
        heading += f"; how turns end: {first['turns']}" if first.get("turns") else ""
        notes = ["Lines: 95 % intervals by run (Wilson; resampled runs)."]
        if unknown := first.get("unknown"):
            notes.append(f"{pluralize(unknown, 'run')} left out: their outcome is unknown.")
        notes += [f"{len(table) - len(rows)} more variants are not drawn."] if len(table) > len(rows) else []
        return finish(figure, TITLE, heading, drawn, notes, "; ".join(map(_describe, names, rows)))


def _draw(shares: Axes, rounds: Axes, rows: Sequence[dict[Any, Any]], series: Series) -> Any:
    """Draw a series in both panels, and return its legend entry if it has any values."""
    drawn = None
    for axes, column in ((shares, series.share), (rounds, series.rounds)):
        for y, row in enumerate(rows):
            value, low, high = (row[f"{column}{end}"] for end in ("", "_low", "_high"))
            if isnan(value):
                continue
            look: dict[str, Any] = {"color": series.color, "clip_on": False, "zorder": 3}
            if not isnan(low):
                axes.hlines(y + series.beside, low, high, linewidth=1.6, **look)
            (drawn,) = axes.plot([value], [y + series.beside], series.marker, linestyle="none", label=series.label, **look)
    return drawn


def _names(rows: Sequence[dict[Any, Any]]) -> list[str]:
    """Return the columns that distinguish each variant; a single variant is named after its policy."""
    differing = [name for name in VARIANT if len({row[name] for row in rows}) > 1] or ["policy"]
    return [", ".join(f"{name} {row[name]}" for name in differing) for row in rows]


def _describe(name: str, row: dict[Any, Any]) -> str:
    caught = f"caught {row['caught']} of {row['failures']}"
    return (
        f"{name}: {caught}, disturbed {row['disturbed']} of {row['healthy']}, saved {pluralize(row['rounds_saved'], 'round')}"
    )
