"""Flips: tasks with another result between two variants."""

from __future__ import annotations

import pytest
from plotted_variants import compared, words

from agentnb import plots
from agentnb.errors import SettingsError

A = {"t1": [1], "t2": [1], "t3": [0], "t4": [0], "t5": [1]}
B = {"t1": [0], "t2": [1], "t3": [0], "t4": [1], "t5": [0]}


def ticks(figure: object) -> list[str]:
    """Return the names of the tasks from left to right."""
    return [text.get_text() for text in figure.axes[0].get_xticklabels()]  # type: ignore[attr-defined]


def bars(figure: object) -> list[tuple[int, float]]:
    """Return task position and height of each bar."""
    found = figure.axes[0].patches  # type: ignore[attr-defined]
    return [(round(bar.get_x() + bar.get_width() / 2), bar.get_height()) for bar in found]


def test_tasks_are_grouped_by_where_they_passed() -> None:
    figure = plots.flips(compared(A, B))
    assert ticks(figure) == ["t1", "t5", "t2", "t3", "t4"]
    assert bars(figure) == [(0, 1), (1, 1), (2, 1), (2, -1), (4, -1)]
    said = " ".join(words(figure))
    assert "n = 5 tasks (5 and 5 runs): new only 2, both 1, neither 1, old only 1" in said
    assert {"new only: 2", "both: 1"} <= {text.get_text() for text in figure.axes[0].texts}


def test_only_flipped_tasks_have_the_colours_of_their_variants() -> None:
    figure = plots.flips(compared(A, B))
    colors = [bar.get_facecolor() for bar in figure.axes[0].patches]
    assert colors[0] == colors[1] and colors[2] == colors[3] and len({*colors}) == 3
    assert [bool(bar.get_hatch()) for bar in figure.axes[0].patches] == [False] * 4 + [True]


def test_several_repeats_are_drawn_as_shares() -> None:
    figure = plots.flips(compared({"x": [1, 1], "y": [1, 0], "z": [0, 0]}, {"x": [1, 0], "y": [0, 1], "z": [0, None]}))
    assert bars(figure) == [(0, 1), (0, -0.5), (1, 0.5), (1, -0.5)]
    assert "new more often 1, both alike 1, neither 1, old more often 0" in " ".join(words(figure))


def test_tasks_known_in_only_one_variant_are_omitted_and_counted() -> None:
    figure = plots.flips(compared({"x": [1], "y": [None]}, {"x": [0], "y": [1]}))
    assert ticks(figure) == ["x"] and "1 task left out: the value is unknown in one of the variants" in words(figure)
    assert "No task has a known value in both variants." in words(plots.flips(compared({"x": [1]}, {"y": [1]})))


def test_most_different_tasks_of_many_are_drawn() -> None:
    a = {str(task): [1 if 90 <= task < 100 else 0] for task in range(130)}
    figure = plots.flips(compared(a, {task: [0] for task in a}))
    assert len(bars(figure)) == 10 and ticks(figure) == []
    assert figure.axes[0].get_xlim()[1] == pytest.approx(119.8)
    said = " ".join(words(figure))
    assert "new only 10, both 0, neither 120" in said
    assert "The 120 tasks that differ most are drawn; the counts include all tasks" in said


def test_flip_plot_refuses_amounts_and_several_comparisons() -> None:
    with pytest.raises(SettingsError, match="passed is not a pass/fail check"):
        plots.flips(compared({"x": [7]}, {"x": [2]}))
    with pytest.raises(SettingsError, match="one comparison, got 2"):
        plots.flips([compared(A, B)] * 2)  # type: ignore[arg-type]
