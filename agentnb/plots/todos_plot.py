"""Burn-down of todos: how many are open after each round, and who changed the list."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

from agentnb.core.messages import pluralize
from agentnb.core.run.fold import todo_changes, todos_at_start
from agentnb.core.todos import open_todos
from agentnb.detect.run import Run
from agentnb.interchange.files import RunSource, load_traces
from agentnb.plots.drawing.plot_style import (
    BLUE,
    FAINT,
    GREEN,
    INK,
    ORANGE,
    SKY,
    VERMILLION,
    amounts,
    empty,
    finish,
    panels,
    plot_style,
    whole_ticks,
)
from agentnb.plots.drawing.several import Curve, draw_curves
from agentnb.plots.drawing.sources import about

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


TITLE = "Open todos, by round"


class Change(NamedTuple):
    """A change to a todo list: its round (0: before the first), its author, and the number of todos open from then on."""

    round: int
    by: str
    open: int
    total: int


def todos(source: RunSource) -> Figure:
    """Draw the open todos after each round, as steps.

    Takes what the tables take. For a single run, the plot also shows the length of the complete list, who changed it
    (the model, or you and your code), and the rounds with todo violations. Several runs have a line each; more than
    six are drawn behind their median, where a finished run keeps its last count. Runs without todos are left out, and
    counted in a note.
    """
    runs = load_traces(source)
    kept = [(run, history) for run in runs if (history := changes(run))]
    if not kept:
        return empty(TITLE, about(runs), "The runs have no todo list." if runs else "There are no runs.")
    last = max(len(run.rounds) for run, _ in kept)
    with plot_style():
        figure, (axes,) = panels(2.8)
        if len(runs) == 1:
            looks = _draw_one(axes, *kept[0])
        else:
            looks = draw_curves(axes, [Curve(run, after_rounds(run, history)) for run, history in kept], steps=True)
        first = min(history[0].round for _, history in kept)
        axes.set_xlim(first - 0.3, max(last, 1) + 0.3)
        ticks = [0, *whole_ticks(1, max(last, 1))] if first == 0 else whole_ticks(1, max(last, 1))
        axes.set_xticks(ticks, ["start" if at == 0 else str(at) for at in ticks])
        axes.set_xlabel("round")
        top = max(change.total if len(runs) == 1 else change.open for _, history in kept for change in history)
        amounts(axes, "y", top * 1.12 + 0.2, whole=True)
        axes.set_ylabel("todos")
        return finish(figure, TITLE, about([run for run, _ in kept]), looks, _notes(len(runs) - len(kept)), _says(kept))


def changes(run: Run) -> list[Change]:
    """Return the changes to the run's list, in order, beginning with the initial list; empty if it never had a list."""
    started = todos_at_start(run)
    history = [Change(0, "", len(open_todos(started)), len(started))] if started else []
    for index, change in todo_changes(run):
        if history or change.todos:
            number = 0 if index is None else index + 1
            history.append(Change(number, change.by, len(open_todos(change.todos)), len(change.todos)))
    return history


def after_rounds(run: Run, found: list[Change]) -> dict[int, float]:
    """Return the number of open todos after each round, from the first round with a list."""
    return _fill_forward({change.round: change.open for change in found}, len(run.rounds))


def _fill_forward(values: Mapping[int, float], last: int) -> dict[int, float]:
    """Return a value for each round up to the last; gaps repeat the previous value."""
    first = next(iter(values))
    current, carried = values[first], {}
    for number in range(first, last + 1):
        current = carried[number] = values.get(number, current)
    return carried


def _draw_one(axes: Axes, run: Run, history: list[Change]) -> list[object]:
    values = after_rounds(run, history)
    totals = _fill_forward({change.round: change.total for change in history}, len(run.rounds))
    (total_line,) = axes.plot(
        list(values),
        list(totals.values()),
        color=FAINT,
        linestyle=":",
        linewidth=1.4,
        drawstyle="steps-post",
        label="all todos",
        zorder=2,
    )
    (open_line,) = axes.plot(
        list(values), list(values.values()), color=BLUE, linewidth=2.2, drawstyle="steps-post", label="open todos", zorder=3
    )
    axes.fill_between(list(values), list(values.values()), step="post", color=SKY, alpha=0.25, linewidth=0)
    looks: list[object] = [open_line, total_line]
    for author, marker, color, label in (
        ("model", "o", ORANGE, "changed by the model"),
        ("outside", "s", GREEN, "changed by you or your code"),
    ):
        rounds = sorted({change.round for change in history if change.by == author})
        if rounds:
            looks += axes.plot(
                rounds,
                [values[at] for at in rounds],
                marker,
                color=color,
                markeredgecolor=INK,
                label=label,
                zorder=5,
                markersize=6,
                clip_on=False,
            )
    broken = [run_round.index + 1 for run_round in run.rounds if run_round.todo_violations and run_round.index + 1 in values]
    if broken:
        looks += axes.plot(
            broken, [values[at] for at in broken], "x", color=VERMILLION, markersize=10, markeredgewidth=2, zorder=6,
            label="todo violation",
        )  # fmt: skip
    return looks


def _notes(left_out: int) -> list[str]:
    return [f"Left out: {pluralize(left_out, 'run')} without todos"] if left_out else []


def _says(kept: list[tuple[Run, list[Change]]]) -> str:
    if len(kept) > 1:
        ended = sum(history[-1].open == 0 for _, history in kept)
        return f"{ended} of {pluralize(len(kept), 'run')} ended with no todo open"
    last = kept[0][1][-1]
    return f"At the end {last.open} of {pluralize(last.total, 'todo')} open"
