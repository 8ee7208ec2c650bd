"""Flips: tasks that passed in only one variant, in both, or in neither."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from agentnb.core.log.run_tags import task_means
from agentnb.core.messages import pluralize
from agentnb.errors import SettingsError
from agentnb.plots.drawing.plot_style import (
    AXES_PIXELS,
    BLUE,
    FAINT,
    INK,
    LINES,
    ORANGE,
    Look,
    distinct,
    empty,
    finish,
    panels,
    plot_style,
    short,
)
from agentnb.plots.experiments.arms import one_comparison

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from agentnb.plots.experiments.protocols import ComparisonLike

TITLE = "Tasks that flip between variants"
MAX_TASKS = 120
"""Maximum number of tasks drawn; those that differ most are kept."""
MAX_NAMED = 60
"""Maximum number of tasks whose names fit below the bars."""
_CHARACTER_PIXELS = 7


class TaskShares(NamedTuple):
    """A task, and the share of its runs that passed in each variant."""

    task: str
    a: float
    b: float

    @property
    def group(self) -> int:
        """The index of its group: passed more often (or only) in a, equally often in both, in neither, or more often (or only)
        in b.
        """
        if self.a != self.b:
            return 0 if self.a > self.b else 3
        return 1 if self.a else 2


def flips(comparison: ComparisonLike) -> Figure:
    """Draw the tasks of a comparison that passed only in its first variant, in both, in neither, or only in its
    second.

    Each task has an upward bar for the first variant and a downward one for the second; their lengths are the shares of its
    runs that passed. Tasks with a value in only one variant are left out. Raises `SettingsError` for a primary that is not
    between 0 and 1.
    """
    compared = one_comparison(comparison, "flips")
    shares, unpaired = _shares(compared)
    heading = f"{compared.primary}, {compared.a} and {compared.b}: n = {pluralize(len(shares), 'task')}"
    if not shares:
        return empty(TITLE, heading, "No task has a known value in both variants.")
    groups = _group_counts(compared, shares)
    heading += f" ({len(compared.rows_a):,} and {len(compared.rows_b):,} runs): " + ", ".join(
        f"{name} {count}" for name, count in groups
    )
    first, second = Look(f"passed: {short(compared.a)}", BLUE), Look(f"passed: {short(compared.b)}", ORANGE, "///")
    unchanged = Look("the same in both", LINES)
    shown = sorted(sorted(shares, key=lambda each: -abs(each.a - each.b))[:MAX_TASKS], key=_order)
    width = 0.8 if len(shown) <= MAX_NAMED else 1.0
    with plot_style():
        names = distinct([task.task for task in shown], 18) if len(shown) <= MAX_NAMED else []
        figure, (axes,) = panels(2.8 + 0.07 * max(map(len, names), default=0))
        for x, task in enumerate(shown):
            is_flip = task.a != task.b
            for height, look in ((task.a, first), (-task.b, second)):
                if height:
                    axes.bar(x, height, width, zorder=2, **(look if is_flip else unchanged).fill)
        axes.axhline(0, color=INK, linewidth=0.8, zorder=3)
        _draw_groups(axes, shown, groups)
        axes.set_xlim(-0.8, len(shown) - 0.2)
        axes.set_ylim(-1.04, 1.2)
        axes.set_yticks([-1, -0.5, 0, 0.5, 1], ["1", "0.5", "0", "0.5", "1"])
        axes.set_ylabel(f"share of runs passed\nup: {short(compared.a, 20)}\ndown: {short(compared.b, 20)}")
        axes.grid(visible=False, axis="x")
        axes.set_xticks(range(len(names)), names, rotation=90, fontsize=7.5)
        axes.tick_params(axis="x", length=0)
        axes.set_xlabel("" if names else "tasks")
        notes = [f"{pluralize(unpaired, 'task')} left out: the value is unknown in one of the variants"] if unpaired else []
        if len(shares) > len(shown):
            notes.append(f"The {len(shown)} tasks that differ most are drawn; the counts include all tasks")
        return finish(figure, TITLE, heading, [first, second, unchanged], notes)


def _shares(comparison: ComparisonLike) -> tuple[list[TaskShares], int]:
    """Return the shares of the tasks whose values in both variants are known, and the number of other tasks."""
    a, b = (task_means(rows, comparison.primary) for rows in (comparison.rows_a, comparison.rows_b))
    paired = [TaskShares(task, a[task], b[task]) for task in a if task in b]
    if any(not 0 <= share <= 1 for task in paired for share in task[1:]):
        raise SettingsError(
            f"{comparison.primary} is not a pass/fail check", "Draw its difference: plots.differences(comparison)"
        )
    return paired, len({*a, *b, *(row.task for row in (*comparison.rows_a, *comparison.rows_b))}) - len(paired)


def _order(task: TaskShares) -> tuple[int, float, float, str]:
    return task.group, task.b - task.a, -task.a, task.task


def _group_counts(comparison: ComparisonLike, shares: Sequence[TaskShares]) -> list[tuple[str, int]]:
    """Return the name of each group and its number of tasks, from the left."""
    has_repeats = any(share not in (0, 1) for task in shares for share in task[1:])
    a, b = distinct([comparison.a, comparison.b], 20)
    qualifier = "more often" if has_repeats else "only"
    names = [f"{a} {qualifier}", "both alike" if has_repeats else "both", "neither", f"{b} {qualifier}"]
    return [(name, sum(task.group == index for task in shares)) for index, name in enumerate(names)]


def _draw_groups(axes: Axes, shown: Sequence[TaskShares], groups: Sequence[tuple[str, int]]) -> None:
    """Draw lines between the groups, and label those that are wide enough."""
    for index, (name, count) in enumerate(groups):
        columns = [x for x, task in enumerate(shown) if task.group == index]
        if not columns:
            continue
        if columns[0]:
            axes.axvline(columns[0] - 0.5, color=FAINT, linewidth=0.8, linestyle=":")
        text = f"{name}: {count:,}"
        if len(text) * _CHARACTER_PIXELS <= AXES_PIXELS * len(columns) / len(shown):
            axes.text((columns[0] + columns[-1]) / 2, 1.1, text, ha="center", va="center", fontsize=8)
