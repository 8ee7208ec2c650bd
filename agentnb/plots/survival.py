"""Rounds until a loop: the share of runs that are still without one after each round."""

from __future__ import annotations

from collections.abc import Iterable
from math import exp, log
from typing import TYPE_CHECKING, NamedTuple

from agentnb.detect.finding import Detectors, detect_name, findings
from agentnb.detect.intervals import Z95
from agentnb.detect.presets import DEFAULT
from agentnb.interchange.files import RunSource, load_traces
from agentnb.plots.drawing.sources import about
from agentnb.plots.drawing.style import BLUE, INK, amounts, empty, finish, panels, plot_style, round_axis

if TYPE_CHECKING:
    from matplotlib.figure import Figure

TITLE = "Rounds until a loop"
LOOPS = ("loop", "stall")


class Step(NamedTuple):
    """What is known after a round: how many runs were still in, and the share without a loop with its interval."""

    round: int
    at_risk: int
    share: float
    low: float
    high: float


def survival(source: RunSource, preset: Detectors = DEFAULT, *, families: Iterable[str] = LOOPS) -> Figure:
    """Draw the share of runs in which nothing was found yet, by round (Kaplan-Meier), with intervals of 95 per cent.

    A run that ended without a finding, at a limit or in any other way, is censored there: it says nothing about later rounds.
    Takes what the tables take. ``families``: the findings that count.
    """
    runs = load_traces(source)
    wanted = {*families}
    times = []
    for run in runs:
        found = [one.last + 1 for one in findings(run, preset) if one.family in wanted]
        times.append((min(found), True) if found else (len(run.rounds), False))
    times = [one for one in times if one[0]]
    name = detect_name(preset)
    loops = sum(is_loop for _, is_loop in times)
    heading = about(runs, f"{loops:,} with a loop by {name}", f"{len(times) - loops:,} censored")
    if not times:
        return empty(TITLE, heading, "There are no rounds.")
    steps = kaplan_meier(times)
    with plot_style():
        figure, (axes,) = panels(3.0)
        rounds = [0, *[one.round for one in steps], max(time for time, _ in times)]
        shares, lows, highs = ([1.0, *[getattr(one, name) for one in steps]] for name in ("share", "low", "high"))
        axes.fill_between(rounds, [*lows, lows[-1]], [*highs, highs[-1]], step="post", color=BLUE, alpha=0.15, linewidth=0)
        line = axes.step(rounds, [*shares, shares[-1]], where="post", color=BLUE, label="without a loop")
        ends = [time for time, is_loop in times if not is_loop]
        shares_there = [next((one.share for one in reversed(steps) if one.round <= end), 1.0) for end in ends]
        marks = axes.plot(ends, shares_there, "|", color=INK, markersize=7, label="ended without one (censored)")
        round_axis(axes, 1, rounds[-1])
        axes.set_xlim(0, rounds[-1] + 0.6)
        amounts(axes, "y", 1.0)
        axes.set_ylabel("share of runs")
        says = "; ".join(f"round {one.round}: {one.share:.2f} of {one.at_risk}" for one in steps[:20]) or "no loop was found"
        return finish(figure, TITLE, heading, [*line, *(marks if ends else [])], ["Shaded: intervals of 95 per cent."], says)


def kaplan_meier(times: Iterable[tuple[int, bool]]) -> list[Step]:
    """Return the share that is left after each round in which something was found, with log-log intervals.

    Source: Kaplan and Meier (1958), with the variance of Greenwood (1926).
    """
    known = sorted(times)
    share, variance = 1.0, 0.0
    steps = []
    for at in sorted({time for time, is_loop in known if is_loop}):
        at_risk = sum(time >= at for time, _ in known)
        found = sum(time == at and is_loop for time, is_loop in known)
        share *= 1 - found / at_risk
        if at_risk > found:
            variance += found / (at_risk * (at_risk - found))
            width = Z95 * variance**0.5 / log(share)
            steps.append(Step(at, at_risk, share, share ** exp(-width), share ** exp(width)))
        else:
            steps.append(Step(at, at_risk, 0.0, 0.0, 0.0))
    return steps
