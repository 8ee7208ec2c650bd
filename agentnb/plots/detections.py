"""Who found what in which round: a lane for each rule of each preset."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from agentnb.detect.finding import Detectors
from agentnb.detect.presets import DEFAULT
from agentnb.detect.timelines import Detection
from agentnb.detect.timelines import detections as detections_of
from agentnb.interchange.files import RunSource
from agentnb.plots.drawing.sources import about, one_run
from agentnb.plots.drawing.style import (
    INK,
    MAX_BARS,
    ORANGE,
    PURPLE,
    SKY,
    VERMILLION,
    Look,
    bar_axis,
    counted,
    distinct,
    empty,
    finish,
    panels,
    plot_style,
    round_axis,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

TITLE = "What detectors found, by round"
LOOKS = {
    "notice": Look("notice", SKY),
    "nudge": Look("nudge", ORANGE, "///"),
    "block": Look("block", PURPLE, "\\\\\\"),
    "stop": Look("stop", VERMILLION, "xxx"),
}
"""By the last severity of a finding."""


def detections(source: RunSource, presets: Iterable[Detectors] = (DEFAULT,)) -> Figure:
    """Draw in which rounds these detectors found something in a run: a lane for each rule, coloured by severity.

    Takes one run, and presets by their names or detectors of your own. A bar spans the rounds that a finding is about, and a
    line marks the round after which it was first found. Raises `SettingsError` for several runs.
    """
    run = one_run(source, "detections")
    found = detections_of(run, presets)
    if not found:
        return empty(TITLE, about([run], counted(len(run.rounds), "round")), "Nothing was found.")
    lanes: dict[str, list[Detection]] = {}
    for one in found:
        lanes.setdefault(f"{one.preset}: {one.rule}", []).append(one)
    shown = dict([*lanes.items()][:MAX_BARS])
    left_out = len(lanes) - len(shown)
    with plot_style():
        figure, (axes,) = panels(0.8 + 0.3 * len(shown))
        for place, mine in enumerate(shown.values()):
            for one in mine:
                width = one.last - one.first + 1
                axes.barh(place, width, 0.6, left=one.first + 0.5, zorder=2, **LOOKS[one.severity].fill)
                axes.vlines(one.made + 1, place - 0.42, place + 0.42, color=INK, linewidth=1.4, zorder=3)
        bar_axis(axes, distinct(list(shown), 40))
        round_axis(axes, 1, max(len(run.rounds), 1))
        used = [look for severity, look in LOOKS.items() if any(one.severity == severity for one in found)]
        notes = [f"{left_out} more rules found something and are not drawn."] if left_out else []
        says = "; ".join(
            f"{name}: first after round {mine[0].made + 1}, {counted(len(mine), 'time')}" for name, mine in shown.items()
        )
        heading = about([run], counted(len(run.rounds), "round"), counted(len(found), "finding"))
        return finish(figure, TITLE, heading, used, ["A line marks the round after which it was first found.", *notes], says)
