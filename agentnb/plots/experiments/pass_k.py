"""pass^k: how often k runs of a task all pass, by variant."""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, Any

from agentnb.plots.drawing.style import amounts, empty, finish, panels, plot_style
from agentnb.plots.experiments.arms import comparisons_of, left_out, signs_of, tasks_range

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from agentnb.plots.experiments.protocols import Comparisons

TITLE = "Tasks of which k runs all pass (pass^k)"
STEP = 0.05
"""How far apart the lines of variants are, so that one does not cover another."""


def pass_k(comparisons: Comparisons) -> Figure:
    """Draw the share of tasks of which k runs all pass, from one run to as many as a task has, for each variant.

    Takes what `agentnb.compare` returns: a comparison or several. Lines and bands are intervals of 95 per cent; a primary that
    does not pass or fail has none.
    """
    found: dict[str, Any] = {}
    rows = comparisons_of(comparisons, "pass_k")
    for one in rows:
        for name, shares in one.pass_k.items():
            found.setdefault(name, shares)
    heading = ", ".join(dict.fromkeys(one.primary for one in rows)) or "No comparison"
    if not any(found.values()):
        sentence = "No task has a run that passed or failed." if found else "The primary does not pass or fail."
        return empty(TITLE, heading, sentence if rows else "There are no comparisons.")
    heading += f": {tasks_range(share.tasks for shares in found.values() for share in shares)}"
    most = max(share.k for shares in found.values() for share in shares)
    with plot_style():
        figure, (axes,) = panels(3.2)
        drawn = []
        signs = signs_of([*found])
        for place, (name, label, sign) in enumerate(signs):
            beside = (place - (len(signs) - 1) / 2) * STEP
            shares = found[name]
            places, values = [share.k + beside for share in shares], [share.value for share in shares]
            known = [(at, *share.interval) for at, share in zip(places, shares, strict=True) if share.interval is not None]
            if known:
                at, lows, highs = zip(*known, strict=True)
                axes.fill_between(at, lows, highs, color=sign.color, alpha=0.1, linewidth=0)
                axes.vlines(at, lows, highs, color=sign.color, linewidth=1.2)
            look: dict[str, Any] = {"color": sign.color, "marker": sign.marker, "clip_on": False, "zorder": 3}
            drawn += axes.plot(places, values, sign.dashes, label=label, **look)
        axes.set_xlim(0.6, most + 0.4)
        counts = {k: {share.tasks for shares in found.values() for share in shares if share.k == k} for k in range(1, most + 1)}
        is_even = len({*chain(*counts.values())}) == 1
        axes.set_xticks([*counts], [f"{k}" if is_even else f"{k}\n({_range(tasks)})" for k, tasks in counts.items()])
        axes.set_xlabel("k: runs of a task that all pass" + ("" if is_even else " (in brackets: tasks with as many runs)"))
        amounts(axes, "y", 1.0)
        axes.set_ylabel("share of tasks")
        notes = ["Lines and bands: intervals of 95 per cent", *left_out([*found])]
        says = "; ".join(f"{name}: {', '.join(f'{share.value:.2f}' for share in shares)}" for name, shares in found.items())
        return finish(figure, TITLE, heading, drawn, notes, says)


def _range(counts: set[int]) -> str:
    low, high = min(counts, default=0), max(counts, default=0)
    return f"{low:,}" if low == high else f"{low:,} to {high:,}"
