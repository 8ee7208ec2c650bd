"""pass^k: the chance that k runs of a task all pass, averaged over tasks, by variant."""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, Any

from agentnb.plots.drawing.plot_style import amounts, empty, finish, panels, plot_style
from agentnb.plots.experiments.arms import comparisons_of, omission_note, signs_of, tasks_range

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from agentnb.plots.experiments.protocols import Comparisons

TITLE = "Chance that k runs of a task all pass (pass^k)"
VARIANT_OFFSET = 0.05
"""Horizontal offset between variants, so that their lines do not overlap."""


def pass_k(comparisons: Comparisons) -> Figure:
    """Draw the chance that k runs of a task all pass, averaged over tasks, for each variant and each k up to a task's number
    of runs.

    Takes what `agentnb.compare` returns: one comparison or several. Lines and bands are 95 per cent intervals. A
    primary that is not pass/fail has no pass^k.
    """
    series: dict[str, Any] = {}
    rows = comparisons_of(comparisons, "pass_k")
    for comparison in rows:
        for name, shares in comparison.pass_k.items():
            series.setdefault(name, shares)
    heading = ", ".join(dict.fromkeys(comparison.primary for comparison in rows)) or "No comparison"
    if not any(series.values()):
        sentence = "No task has a run that passed or failed." if series else "The primary is not a pass/fail check."
        return empty(TITLE, heading, sentence if rows else "There are no comparisons.")
    heading += f": {tasks_range(share.tasks for shares in series.values() for share in shares)}"
    most = max(share.k for shares in series.values() for share in shares)
    with plot_style():
        figure, (axes,) = panels(3.2)
        drawn = []
        signs = signs_of([*series])
        for index, (name, label, sign) in enumerate(signs):
            offset = (index - (len(signs) - 1) / 2) * VARIANT_OFFSET
            shares = series[name]
            places, values = [share.k + offset for share in shares], [share.value for share in shares]
            bounded = [(at, *share.interval) for at, share in zip(places, shares, strict=True) if share.interval is not None]
            if bounded:
                at, lows, highs = zip(*bounded, strict=True)
                axes.fill_between(at, lows, highs, color=sign.color, alpha=0.1, linewidth=0)
                axes.vlines(at, lows, highs, color=sign.color, linewidth=1.2)
            look: dict[str, Any] = {"color": sign.color, "marker": sign.marker, "clip_on": False, "zorder": 3}
            drawn += axes.plot(places, values, sign.dashes, label=label, **look)
        axes.set_xlim(0.6, most + 0.4)
        counts = {
            k: {share.tasks for shares in series.values() for share in shares if share.k == k} for k in range(1, most + 1)
        }
        is_even = len({*chain(*counts.values())}) == 1
        axes.set_xticks([*counts], [f"{k}" if is_even else f"{k}\n({_range(tasks)})" for k, tasks in counts.items()])
        axes.set_xlabel("k: runs of a task that all pass" + ("" if is_even else " (in brackets: tasks with k runs or more)"))
        amounts(axes, "y", 1.0)
        axes.set_ylabel("chance, mean of tasks")
        notes = ["Lines and bands: 95 % intervals", *omission_note([*series])]
        says = "; ".join(f"{name}: {', '.join(f'{share.value:.2f}' for share in shares)}" for name, shares in series.items())
        return finish(figure, TITLE, heading, drawn, notes, says)


def _range(counts: set[int]) -> str:
    low, high = min(counts, default=0), max(counts, default=0)
    return f"{low:,}" if low == high else f"{low:,} to {high:,}"
