"""Findings of detectors by round, with a lane for each rule of each preset."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from agentnb.core.messages import pluralize
from agentnb.detect.presets import DEFAULT
from agentnb.detect.run_detectors import Detectors
from agentnb.detect.timelines import Detection
from agentnb.detect.timelines import detections as detections_of
from agentnb.interchange.files import RunSource
from agentnb.plots.drawing.plot_style import (
    INK,
    MAX_BARS,
    ORANGE,
    PURPLE,
    SKY,
    VERMILLION,
    Look,
    bar_axis,
    distinct,
    empty,
    finish,
    panels,
    plot_style,
    round_axis,
)
from agentnb.plots.drawing.sources import about, one_run

if TYPE_CHECKING:
    from matplotlib.figure import Figure

TITLE = "Findings of detectors, by round"
LOOKS = {
    "notice": Look("notice", SKY),
    "nudge": Look("nudge", ORANGE, "///"),
    "block": Look("block", PURPLE, "\\\\\\"),
    "stop": Look("stop", VERMILLION, "xxx"),
}
"""Appearance by a finding's last severity."""


def detections(source: RunSource, presets: Iterable[Detectors] = (DEFAULT,)) -> Figure:
    """Draw the findings of these detectors in a run: a lane for each rule, coloured by severity.

    Takes a single run, and the names of presets or your own detectors. A bar spans the rounds of a finding, and a
    line marks the round after which it first appeared. Raises `SettingsError` for several runs.
    """
    run = one_run(source, "detections")
    findings = detections_of(run, presets)
    if not findings:
        return empty(TITLE, about([run], pluralize(len(run.rounds), "round")), "Nothing was found.")
    lanes: dict[str, list[Detection]] = {}
    for finding in findings:
        lanes.setdefault(f"{finding.preset}: {finding.rule}", []).append(finding)
    shown = dict([*lanes.items()][:MAX_BARS])
    omitted = len(lanes) - len(shown)
    with plot_style():
        figure, (axes,) = panels(0.8 + 0.3 * len(shown))
        for y, lane in enumerate(shown.values()):
            for finding in lane:
                width = finding.last - finding.first + 1
                axes.barh(y, width, 0.6, left=finding.first + 0.5, zorder=2, **LOOKS[finding.severity].fill)
                axes.vlines(finding.made + 1, y - 0.42, y + 0.42, color=INK, linewidth=1.4, zorder=3)
        bar_axis(axes, distinct(list(shown), 40))
        round_axis(axes, 1, max(len(run.rounds), 1))
        used = [look for severity, look in LOOKS.items() if any(finding.severity == severity for finding in findings)]
        notes = [f"{omitted} more rules with findings are not drawn."] if omitted else []
        says = "; ".join(
            f"{name}: first after round {lane[0].made + 1}, {pluralize(len(lane), 'time')}" for name, lane in shown.items()
        )
        heading = about([run], pluralize(len(run.rounds), "round"), pluralize(len(findings), "finding"))
        return finish(figure, TITLE, heading, used, ["A line marks the first finding of a rule.", *notes], says)
