"""Rounds until a loop: the share of runs that are still without one after each round."""

from __future__ import annotations

from collections.abc import Iterable
from math import exp, log
from typing import TYPE_CHECKING, Any, NamedTuple

from agentnb.detect.finding import Detectors, detect_name, findings
from agentnb.detect.intervals import Z95
from agentnb.detect.presets import DEFAULT
from agentnb.detect.run import Run
from agentnb.interchange.files import load_traces
from agentnb.plots.drawing.several import SIGNS
from agentnb.plots.drawing.sources import about
from agentnb.plots.drawing.style import INK, amounts, counted, empty, finish, panels, plot_style, round_axis, short
from agentnb.plots.experiments.arms import MAX_CURVES, is_comparison, left_out, rows_by_variant, runs_by_tag
from agentnb.plots.experiments.protocols import ArmRow, ArmSource

if TYPE_CHECKING:
    from matplotlib.axes import Axes
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


class Arm(NamedTuple):
    """Runs of a variant by their rounds until a loop, or until they ended without one."""

    name: str
    """Empty for runs without variants."""
    times: list[tuple[int, bool]]
    """Of each run its last round, and whether that had the loop."""

    @property
    def loops(self) -> int:
        """Runs with a loop."""
        return sum(is_loop for _, is_loop in self.times)

    @property
    def label(self) -> str:
        """How the legend names its curve."""
        if not self.name:
            return "without a loop"
        return f"{short(self.name)} (n = {counted(len(self.times), 'run')}, {self.loops:,} with a loop)"


def survival(source: ArmSource, preset: Detectors = DEFAULT, *, families: Iterable[str] = LOOPS) -> Figure:
    """Draw the share of runs in which nothing was found yet, by round (Kaplan-Meier), with intervals of 95 per cent.

    A run that ended without a finding, at a limit or in any other way, is censored there: it says nothing about later rounds.
    Takes what the tables take, results of an experiment, or comparisons. Variants have a curve each; those of runs are told by
    their tags ``variant:NAME``. ``families``: the findings that count. Of results and comparisons, loops are those of
    `tables.loops`, whatever ``preset`` and ``families`` are.
    """
    arms, heading = _arms(source, preset, {*families})
    if not arms:
        return empty(TITLE, heading, "There are no rounds.")
    shown = arms[:MAX_CURVES]
    with plot_style():
        figure, (axes,) = panels(3.0)
        last = max(time for arm in shown for time, _ in arm.times)
        lines, marks, says = [], [], []
        for place, arm in enumerate(shown):
            steps = kaplan_meier(arm.times)
            drawn, censored = _draw(axes, arm, steps, place, len(shown))
            lines += drawn
            marks += censored
            told = [f"round {one.round}: {one.share:.2f} of {one.at_risk}" for one in steps[:20]] or ["no loop was found"]
            says.append((f"{arm.name}: " if arm.name else "") + "; ".join(told))
        round_axis(axes, 1, last)
        axes.set_xlim(0, last + 0.6)
        amounts(axes, "y", 1.0)
        axes.set_ylabel("share of runs")
        notes = ["Shaded: intervals of 95 per cent", *left_out([arm.name for arm in arms])]
        if is_comparison(source) and (p_value := source.survival.p_value) is not None:  # type: ignore[union-attr]
            notes[0] += f". Log-rank test, with runs taken as independent: p = {p_value:.2g}"
        return finish(figure, TITLE, heading, [*lines, *marks[:1]], notes, ". ".join(says))


def _arms(source: ArmSource, preset: Detectors, families: set[str]) -> tuple[list[Arm], str]:
    """Return the arms that have rounds, and the heading of their figure."""
    rows = rows_by_variant(source)
    if rows is None:
        runs = load_traces(source)  # type: ignore[arg-type]  # no results or comparisons
        found = [Arm(name, _times(group, preset, families)) for name, group in runs_by_tag(runs).items()]
    else:
        found = [Arm(name, [_time(row) for row in group if row.rounds]) for name, group in rows.items()]
    arms = [arm for arm in found if arm.times]
    loops = sum(arm.loops for arm in arms)
    total = sum(len(arm.times) for arm in arms)
    more = f"{total - loops:,} censored"
    if rows is None:
        return arms, about(runs, f"{loops:,} with a loop by {detect_name(preset)}", more)
    return arms, f"n = {counted(total, 'run')}: {loops:,} with a loop, {more}"


def _draw(axes: Axes, arm: Arm, steps: list[Step], place: int, arms: int) -> tuple[list[Any], list[Any]]:
    """Draw the curve of an arm and its censored runs, and return what the legend shows of both."""
    color, _, dashes = SIGNS[place]
    rounds = [0, *[one.round for one in steps], max(time for time, _ in arm.times)]
    shares, lows, highs = ([1.0, *[getattr(one, name) for one in steps]] for name in ("share", "low", "high"))
    axes.fill_between(rounds, [*lows, lows[-1]], [*highs, highs[-1]], step="post", color=color, alpha=0.15, linewidth=0)
    thick = 1.5 + 0.8 * (arms - 1 - place)  # those below are thicker: of equal curves all can be seen
    line = axes.step(
        rounds, [*shares, shares[-1]], dashes, where="post", color=color, label=arm.label, linewidth=thick
    )  # fmt: skip
    ends = [time for time, is_loop in arm.times if not is_loop]
    shares_there = [next((one.share for one in reversed(steps) if one.round <= end), 1.0) for end in ends]
    marks = axes.plot(ends, shares_there, "|", color=INK, markersize=7, label="ended without one (censored)")
    return line, marks if ends else []


def _times(runs: Iterable[Run], preset: Detectors, families: set[str]) -> list[tuple[int, bool]]:
    """Return the rounds until a finding of runs that have rounds."""
    times = []
    for run in runs:
        found = [one.last + 1 for one in findings(run, preset) if one.family in families]
        times.append((min(found), True) if found else (len(run.rounds), False))
    return [one for one in times if one[0]]


def _time(row: ArmRow) -> tuple[int, bool]:
    return (row.rounds, False) if row.loop_round is None else (row.loop_round, True)


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
