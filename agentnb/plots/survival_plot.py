"""Rounds until a loop: the share of runs that have had a loop, by round."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias

from agentnb.core.log.run_tags import TASK_TAG, find_tag
from agentnb.core.messages import pluralize
from agentnb.detect.presets import DEFAULT
from agentnb.detect.run import Run
from agentnb.detect.run_detectors import Detectors, detect_name, findings
from agentnb.interchange.files import load_traces
from agentnb.plots.drawing.plot_style import INK, amounts, empty, finish, panels, plot_style, round_axis, short
from agentnb.plots.drawing.several import SIGNS
from agentnb.plots.drawing.sources import about
from agentnb.plots.experiments.arms import MAX_CURVES, is_comparison, omission_note, rows_by_variant, runs_by_tag
from agentnb.plots.experiments.protocols import ArmRow, ArmSource

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

TITLE = "Rounds until a loop"
LOOPS = ("loop", "stall")
RESAMPLES = 500
MIN_UNITS = 6


END: TypeAlias = Literal["loop", "completed", "censored"]


class RunEnd(NamedTuple):
    """End of a run's time at risk: a loop, completion without a loop, or censoring by a limit or a stop."""

    unit: Hashable
    """Its task or cluster of tasks; runs of the same one are not independent."""
    round: int
    end: END


class Step(NamedTuple):
    """State after a round with a loop: the number of runs at risk, and the share that have had a loop, with its interval."""

    round: int
    at_risk: int
    share: float
    low: float
    high: float


class Arm(NamedTuple):
    """The runs of a variant, each until a loop or until it ended without one."""

    name: str
    """Name of the variant; empty for runs without variants."""
    ends: list[RunEnd]

    @property
    def label(self) -> str:
        """The name of the curve in the legend."""
        if not self.name:
            return "with a loop"
        loops = sum(end.end == "loop" for end in self.ends)
        return f"{short(self.name)} (n = {pluralize(len(self.ends), 'run')}, {loops:,} with a loop)"


def survival(source: ArmSource, preset: Detectors = DEFAULT, *, families: Iterable[str] = LOOPS) -> Figure:
    """Draw the share of runs with a finding, by round (cumulative incidence), with 95 per cent intervals.

    A run that completed without a finding counts as having none in later rounds either. A run that ended in another
    way, such as at a limit, is censored there, since its later rounds are unknown. Intervals come from resampling
    tasks, or clusters of tasks.

    Takes what the tables take, results of an experiment, or comparisons. Each variant has a curve; runs are grouped by
    their tags ``variant:NAME``. ``families``: the findings that count. For results and comparisons, loops are those of
    `tables.loops`, regardless of ``preset`` and ``families``.
    """
    arms, heading = _arms(source, preset, {*families})
    if not arms:
        return empty(TITLE, heading, "There are no rounds.")
    shown = arms[:MAX_CURVES]
    with plot_style():
        figure, (axes,) = panels(3.0)
        last = max(end.round for arm in shown for end in arm.ends)
        lines, marks, says = [], [], []
        for index, arm in enumerate(shown):
            steps = cumulative_incidence(arm.ends)
            drawn, censored = _draw(axes, arm, steps, index, len(shown))
            lines += drawn
            marks += censored
            points = [f"round {step.round}: {step.share:.2f} of {step.at_risk}" for step in steps[:20]] or ["no loop was found"]
            says.append((f"{arm.name}: " if arm.name else "") + "; ".join(points))
        round_axis(axes, 1, last)
        axes.set_xlim(0, last + 0.6)
        amounts(axes, "y", 1.0)
        axes.set_ylabel("share of runs")
        notes = ["Shaded: 95 % intervals", *omission_note([arm.name for arm in arms])]
        if is_comparison(source) and (p_value := source.survival.p_value) is not None:  # type: ignore[union-attr]
            notes[0] += f". Gray's test, with the arms of whole tasks swapped: p = {p_value:.2g}"
        return finish(figure, TITLE, heading, [*lines, *marks[:1]], notes, ". ".join(says))


def _arms(source: ArmSource, preset: Detectors, families: set[str]) -> tuple[list[Arm], str]:
    """Return the arms that have rounds, and the heading of the figure."""
    rows = rows_by_variant(source)
    if rows is None:
        runs = load_traces(source)  # type: ignore[arg-type]  # neither results nor comparisons
        candidates = [Arm(name, _ends(group, preset, families)) for name, group in runs_by_tag(runs).items()]
    else:
        candidates = [Arm(name, ends_of(group)) for name, group in rows.items()]
    arms = [arm for arm in candidates if arm.ends]
    ends = Counter(end.end for arm in arms for end in arm.ends)
    loops, total = ends["loop"], ends.total()
    more = f"{ends['completed']:,} completed without a loop, {ends['censored']:,} censored"
    if rows is None:
        return arms, about(runs, f"{loops:,} with a loop by {detect_name(preset)}", more)
    return arms, f"n = {pluralize(total, 'run')}: {loops:,} with a loop, {more}"


def _draw(axes: Axes, arm: Arm, steps: list[Step], index: int, arms: int) -> tuple[list[Any], list[Any]]:
    """Draw an arm's curve and its censored runs, and return the legend entries for both."""
    color, _, dashes = SIGNS[index]
    rounds = [0, *[step.round for step in steps], max(end.round for end in arm.ends)]
    shares, lows, highs = ([0.0, *[getattr(step, name) for step in steps]] for name in ("share", "low", "high"))
    axes.fill_between(rounds, [*lows, lows[-1]], [*highs, highs[-1]], step="post", color=color, alpha=0.15, linewidth=0)
    thick = 1.5 + 0.8 * (arms - 1 - index)  # lower curves are thicker, so that equal curves all show
    line = axes.step(
        rounds, [*shares, shares[-1]], dashes, where="post", color=color, label=arm.label, linewidth=thick
    )  # fmt: skip
    ends = [end.round for end in arm.ends if end.end == "censored"]
    shares_at_ends = [next((step.share for step in reversed(steps) if step.round <= end), 0.0) for end in ends]
    marks = axes.plot(ends, shares_at_ends, "|", color=INK, markersize=7, label="cut short without one (censored)")
    return line, marks if ends else []


def _ends(runs: Iterable[Run], preset: Detectors, families: set[str]) -> list[RunEnd]:
    """Return the ends of runs that have rounds; each run is a unit, unless a tag names its task."""
    ends = []
    for run in runs:
        first_round = min([finding.last + 1 for finding in findings(run, preset) if finding.family in families], default=None)
        unit = find_tag(run.tags, TASK_TAG) or run.id
        ends.append(_end(unit, len(run.rounds), first_round, is_completed=run.status == "completed"))
    return [end for end in ends if end.round]


def ends_of(rows: Iterable[ArmRow]) -> list[RunEnd]:
    """Return the ends of runs that have rounds, by cluster or task."""
    return [_end(row.cluster_key, row.rounds, row.loop_round, is_completed=row.is_completed) for row in rows if row.rounds]


def _end(unit: Hashable, rounds: int, loop: int | None, *, is_completed: bool) -> RunEnd:
    return RunEnd(unit, rounds, "completed" if is_completed else "censored") if loop is None else RunEnd(unit, loop, "loop")


def cumulative_incidence(ends: Sequence[RunEnd]) -> list[Step]:
    """Return, after each round with a new loop, the share of runs that have had one, with intervals from 500
    resamples of the units.

    With fewer than 6 units, the intervals are 0 to 1. Sources: Aalen and Johansen (1978), Scandinavian Journal of
    Statistics 5; Efron (1979).
    """
    import numpy as np

    counts = count_ends(ends, [*dict.fromkeys(end.unit for end in ends)])
    units = len(counts)
    drawn = np.random.default_rng(0).multinomial(units, [1 / units] * units, RESAMPLES) if units else np.zeros((0, 0))
    curves = incidence(np.tensordot(drawn.astype(float), counts, 1))
    total = counts.sum(axis=0)
    shares = incidence(total)
    widest = np.zeros_like(shares), np.ones_like(shares)
    lows, highs = widest if units < MIN_UNITS else np.percentile(curves, (2.5, 97.5), axis=0)
    return [
        Step(index + 1, int(total[0, index]), *(float(curve[index]) for curve in (shares, lows, highs)))
        for index in map(int, np.flatnonzero(total[1]))
    ]


def count_ends(ends: Iterable[RunEnd], units: Sequence[Hashable], last: int | None = None) -> Any:
    """Return counts by unit (in this order) and by round up to the last: runs at risk, runs with a loop, and runs
    that complete.
    """
    import numpy as np

    all_ends = [*ends]
    order = {unit: index for index, unit in enumerate(units)}
    counts = np.zeros((len(order), 3, last or max((end.round for end in all_ends), default=0)))
    for end in all_ends:
        row = counts[order[end.unit]]
        row[0, : end.round] += 1
        if end.end != "censored":
            row[1 + (end.end == "completed"), end.round - 1] += 1
    return counts


def incidence(counts: Any) -> Any:
    """Return the share of runs that have had a loop after each round, from the counts that `count_ends` returns."""
    import numpy as np

    at_risk, loops, completed = np.moveaxis(counts, -2, 0)
    surviving = np.cumprod(1 - (loops + completed) / np.maximum(at_risk, 1), axis=-1)
    before = np.concatenate([np.ones_like(surviving[..., :1]), surviving[..., :-1]], axis=-1)
    return np.cumsum(before * loops / np.maximum(at_risk, 1), axis=-1)
