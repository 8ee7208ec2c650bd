"""Quality of a detector at each value of a threshold."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agentnb.core.messages import pluralize
from agentnb.plots.drawing.plot_style import BLUE, GREEN, VERMILLION, amounts, empty, finish, panels, plot_style
from agentnb.plots.drawing.sources import check_columns

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

TITLE = "A detector at each threshold"
LINES = (("precision", BLUE, "o", "-"), ("recall", VERMILLION, "s", "--"), ("f1", GREEN, "^", "-."))


def sweep(table: pd.DataFrame) -> Figure:
    """Draw the precision, recall and F1 in a table that `agentnb.detect.sweep` returned, with 95 per cent intervals.

    Raises `SettingsError` for another table.
    """
    check_columns(
        table,
        {"threshold", "value", "detector", "runs", "f1_low"},
        "sweep",
        "Pass the table of detect.sweep: plots.sweep(detect.sweep(runs, labels, RepeatedText, alike=[70, 80]))",
    )
    if not len(table):
        return empty(TITLE, "No value", "The table has no rows.")
    rows = table.sort_values("value")
    first = rows.iloc[0]
    with plot_style():
        figure, (axes,) = panels(3.0)
        drawn = []
        for name, color, marker, dashes in LINES:
            valid = rows[rows[name].notna()]
            if not len(valid):
                continue
            values = valid["value"].astype(float)
            axes.fill_between(values, valid[f"{name}_low"], valid[f"{name}_high"], color=color, alpha=0.12, linewidth=0)
            label = name.upper() if name == "f1" else name
            drawn += axes.plot(values, valid[name], color=color, marker=marker, linestyle=dashes, label=label, clip_on=False)
        amounts(axes, "y", 1.0)
        if len(rows) <= 15:
            axes.set_xticks([*rows["value"].astype(float)], [f"{value:g}" for value in rows["value"]])
        axes.set_xlabel(str(first["threshold"]))
        heading = f"{first['detector']}: n = {pluralize(int(first['runs']), 'run')}, {int(first['positives'])} of them positive"
        says = "; ".join(f"{row['value']}: F1 {row['f1']:.2f}" for _, row in rows.iterrows() if row["f1"] == row["f1"])
        return finish(figure, TITLE, heading, drawn, ["Shaded: 95 % intervals (Wilson)."], says)
