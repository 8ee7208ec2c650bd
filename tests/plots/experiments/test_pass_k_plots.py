"""The curves of pass^k."""

from __future__ import annotations

import pytest
from plotted_variants import compared, words

from agentnb import plots

A = {f"t{task}": [1, 1, task % 2] for task in range(8)}
B = {f"t{task}": [1, 0, 0] for task in range(8)}


def test_each_variant_has_a_pass_curve_with_a_band() -> None:
    comparison = compared(A, B)
    figure = plots.pass_k(comparison)
    axes = figure.axes[0]
    assert [line.get_label() for line in axes.lines] == ["new", "old"]
    for line, name in zip(axes.lines, ("new", "old"), strict=True):
        assert [*line.get_ydata()] == [share.value for share in comparison.pass_k[name]]
        assert [round(at) for at in line.get_xdata()] == [1, 2, 3]
    drawn = [tuple(segment[:, 1]) for found in axes.collections[1::2] for segment in found.get_segments()]
    wanted = [share.interval for shares in comparison.pass_k.values() for share in shares]
    assert drawn == [pytest.approx(interval) for interval in wanted]
    assert "passed: n = 8 tasks" in words(figure)
    assert [text.get_text() for text in axes.get_xticklabels()] == ["1", "2", "3"]


def test_task_count_is_shown_below_each_k_if_different() -> None:
    figure = plots.pass_k(compared({**A, "more": [1]}, B))
    labels = [text.get_text() for text in figure.axes[0].get_xticklabels()]
    assert labels == ["1\n(8 to 9)", "2\n(8)", "3\n(8)"] and "passed: n = 8 to 9 tasks" in words(figure)


def test_variant_of_several_comparisons_is_drawn_once() -> None:
    figure = plots.pass_k([compared(A, B), compared(B, B, ("other", "old"))])
    assert [line.get_label() for line in figure.axes[0].lines] == ["new", "old", "other"]
    many = [compared(A, B, (f"v{number}", "old")) for number in range(7)]
    assert "2 more variants are not drawn" in words(plots.pass_k(many))


def test_share_of_fewer_than_five_tasks_has_no_band() -> None:
    figure = plots.pass_k(compared({"x": [1, 0]}, {"x": [1, 1]}))
    assert not figure.axes[0].collections and [*figure.axes[0].lines[0].get_ydata()] == [0.5, 0.0]


def test_pass_k_plot_explains_missing_pass_values() -> None:
    assert "The primary is not a pass/fail check." in words(plots.pass_k(compared({"x": [7]}, {"x": [2]})))
    assert "No task has a run that passed or failed." in words(plots.pass_k(compared({"x": [None]}, {"x": [None]})))
    assert "There are no comparisons." in words(plots.pass_k([]))
