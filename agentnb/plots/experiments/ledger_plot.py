"""Ledger by round: the share of a variant's runs that are still going, and the cost of their rounds."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from agentnb.core.messages import pluralize
from agentnb.detect.intervals import mean_interval, wilson
from agentnb.detect.run import Run
from agentnb.plots.cost import dollars
from agentnb.plots.drawing.plot_style import amounts, empty, finish, plot_style, round_axis, stacked_panels
from agentnb.plots.experiments.arms import COST, TOKENS, measure_of, omission_note, runs_by_variant, signs_of
from agentnb.tables.model_call_rows import model_calls

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from agentnb.plots.experiments.arms import Sign
    from agentnb.plots.experiments.protocols import ArmSource

TITLE = "Ledger by round"


class RunLedger(NamedTuple):
    """Cost and tokens of each round of a run, or None if unknown."""

    cost: list[float | None]
    tokens: list[float | None]


class Point(NamedTuple):
    """The value for a round, with its interval and the number of runs."""

    round: int
    value: float
    low: float | None
    high: float | None
    runs: int


def ledger(source: ArmSource) -> Figure:
    """Draw the share of runs that reach each round, and the mean cost of each round, with a curve for each variant.

    Takes what the tables take, results of an experiment, or comparisons; runs are grouped by their tags
    ``variant:NAME``. If any cost is unknown or all are 0, tokens are drawn. All model calls of a round count; calls
    before the first round count as part of it.
    """
    arms = {name: [_ledger_of(run) for run in runs if run.rounds] for name, runs in runs_by_variant(source).items()}
    nonempty = {name: runs for name, runs in arms.items() if runs}
    heading = f"n = {pluralize(sum(map(len, nonempty.values())), 'run')}"
    if not nonempty:
        return empty(TITLE, heading, "There are no rounds.")
    signs = signs_of([*nonempty])
    measure = measure_of([cost for runs in nonempty.values() for run in runs for cost in run.cost])
    with plot_style():
        figure, (shares, spent) = stacked_panels(4.6)
        lines, says, top = [], [], 0.0
        for index, (name, label, sign) in enumerate(signs):
            runs = nonempty[name]
            full_label = f"{label} (n = {pluralize(len(runs), 'run')})" if name else pluralize(len(runs), "run")
            thick = 1.4 + 0.8 * (len(signs) - 1 - index)  # lower curves are thicker, so that equal curves all show
            lines += _draw(shares, goes_on(runs), sign, full_label, thick)
            means = by_round(runs, measure)
            _draw(spent, means, sign, full_label, thick)
            top = max([top, *(end for point in means for end in (point.value, point.high) if end is not None)])
            says.append(f"{name or 'all'}: {pluralize(len(runs), 'run')}, {_per_run(runs, measure)}")
        last = max(len(run.tokens) for name, *_ in signs for run in nonempty[name])
        for axes in (shares, spent):
            round_axis(axes, 1, last)
        shares.set_xlabel("")
        amounts(shares, "y", 1.0)
        shares.set_ylabel("share of runs\nstill running")
        amounts(spent, "y", 1.08 * top, prefix="$" if measure == COST else "")
        spent.set_ylabel("US dollars\nof a round" if measure == COST else "tokens\nof a round")
        notes = ["Shaded: 95 % intervals by run, for shares and for means of the runs still running"]
        if measure == TOKENS:
            notes.append("Tokens instead of cost: the cost is 0, or unknown for some model calls")
        if unknown := sum(value is None for runs in nonempty.values() for run in runs for value in getattr(run, measure)):
            notes.append(f"Not recorded: the {measure} of {pluralize(unknown, 'round')}")
        return finish(figure, TITLE, heading, lines, [*notes, *omission_note([*nonempty])], "; ".join(says))


def goes_on(runs: Sequence[RunLedger]) -> list[Point]:
    """Return the share of runs that reach each round."""
    lengths = Counter(len(run.tokens) for run in runs)
    remaining, points = len(runs), []
    for number in range(1, max(lengths) + 1):
        share = wilson(remaining, len(runs))
        assert share.value is not None, "there are runs"
        points.append(Point(number, share.value, share.low, share.high, remaining))
        remaining -= lengths[number]
    return points


def by_round(runs: Sequence[RunLedger], what: str) -> list[Point]:
    """Return the mean cost or tokens of each round, across the runs that reach it and whose value is known."""
    points = []
    for index in range(max(len(run.tokens) for run in runs)):
        values = [value for run in runs if index < len(run.tokens) and (value := getattr(run, what)[index]) is not None]
        mean = mean_interval(sorted(values))  # sorted, so that the interval does not depend on the order of runs
        if mean.value is not None:
            points.append(Point(index + 1, mean.value, mean.low, mean.high, len(values)))
    return points


def _draw(axes: Axes, points: Sequence[Point], sign: Sign, label: str, thick: float) -> list[Any]:
    """Draw a variant's curve with its band, and return the entries for the legend."""
    bounded = [(point.round, point.low, point.high) for point in points if point.low is not None and point.high is not None]
    lows, highs = [low for _, low, _ in bounded], [high for *_, high in bounded]
    axes.fill_between([number for number, *_ in bounded], lows, highs, color=sign.color, alpha=0.1, linewidth=0)
    look: dict[str, Any] = {"color": sign.color, "linewidth": thick, "clip_on": False, "zorder": 3}
    if len(points) <= 30:
        look |= {"marker": sign.marker, "markersize": thick + 3}
    return axes.plot([point.round for point in points], [point.value for point in points], sign.dashes, label=label, **look)


def _ledger_of(run: Run) -> RunLedger:
    """Return the cost and tokens of each round, summed over all its model calls."""
    cost: list[float | None] = [0.0] * len(run.rounds)
    tokens: list[float | None] = [0.0] * len(run.rounds)
    for call in model_calls(run):
        usage, index = call.usage, min(call.round or 0, len(run.rounds) - 1)
        if call.failed and usage.cost is None and usage.input is None and usage.output is None:
            continue  # no reply, so no usage
        token_count = None if usage.input is None or usage.output is None else float(usage.input + usage.output)
        for values, value in ((cost, usage.cost), (tokens, token_count)):
            total = values[index]
            values[index] = None if total is None or value is None else total + value
    return RunLedger(cost, tokens)


def _per_run(runs: Sequence[RunLedger], measure: str) -> str:
    """Return the mean per run, across the runs for which it is known."""
    sums = [sum(values) for run in runs if None not in (values := getattr(run, measure))]
    if not sums:
        return f"{measure} not recorded"
    mean = sum(sums) / len(sums)
    return f"{dollars(mean) if measure == COST else f'{mean:,.0f} tokens'} a run"
