"""Curves of several runs in one plot: drawn individually or, if there are many, behind their median."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import median
from typing import TYPE_CHECKING, Any, NamedTuple

from agentnb.detect.run import Run
from agentnb.plots.drawing.plot_style import BLUE, GREEN, INK, MANY, ORANGE, PURPLE, SKY, VERMILLION, distinct
from agentnb.plots.drawing.sources import name_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes

SIGNS = (
    (BLUE, "o", "-"),
    (ORANGE, "s", "--"),
    (GREEN, "^", "-."),
    (PURPLE, "D", ":"),
    (VERMILLION, "v", "-"),
    (SKY, "P", "--"),
)
"""Colour, marker and line style of each curve; their number limits the curves that can be distinguished."""


class Curve(NamedTuple):
    """The values of a run by round; a round whose value is unknown is left out."""

    run: Run
    values: Mapping[int, float]


def draw_curves(axes: Axes, curves: Sequence[Curve], *, steps: bool) -> list[Any]:
    """Draw the curves and return the entries for the legend. ``steps``: whether a value holds until the next one."""
    if len(curves) > len(SIGNS):
        return _draw_many(axes, curves, steps=steps)
    names = distinct([name_of(curve.run) for curve in curves], 44)
    lines = []
    for index, (curve, name, (color, marker, dash)) in enumerate(zip(curves, names, SIGNS, strict=False)):
        thick = 1.4 + 0.8 * (len(curves) - 1 - index)  # lower curves are thicker, so that equal curves all show
        lines += axes.plot(
            list(curve.values), list(curve.values.values()), dash, color=color, marker=marker, label=name, linewidth=thick,
            markersize=thick + 3, drawstyle="steps-post" if steps else "default", zorder=3,
        )  # fmt: skip
    return lines


def _draw_many(axes: Axes, curves: Sequence[Curve], *, steps: bool) -> list[Any]:
    style = "steps-post" if steps else "default"
    lines: list[Any] = []
    for curve in curves:
        lines = axes.plot(
            list(curve.values), list(curve.values.values()), color=MANY, linewidth=1, drawstyle=style, marker=".",
            markersize=4, zorder=2,
        )  # fmt: skip
    lines[0].set_label("one run each")
    middle = medians(curves, carried=steps)
    (line,) = axes.plot(
        list(middle), list(middle.values()), color=INK, linewidth=2.2, drawstyle=style, label="median", zorder=4
    )  # fmt: skip
    return [line, lines[0]]


def medians(curves: Sequence[Curve], *, carried: bool) -> dict[int, float]:
    """Return the median by round. ``carried``: whether a finished run keeps its last value, rather than no longer counting."""
    rounds = sorted({number for curve in curves for number in curve.values})
    last: list[float | None] = [None] * len(curves)
    result = {}
    for number in rounds:
        current = [curve.values.get(number) for curve in curves]
        last = [before if value is None else value for before, value in zip(last, current, strict=True)]
        present = [value for value in (last if carried else current) if value is not None]
        result[number] = median(present)
    return result
