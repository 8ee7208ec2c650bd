"""The forest plot of differences."""

from __future__ import annotations

from types import SimpleNamespace
from typing import cast

import pytest
from plotted_variants import compared, names, ran, rows_of, words

from agentnb import compare, plots
from agentnb.errors import SettingsError
from agentnb.experiments.results.comparison import Comparison
from agentnb.plots.experiments.protocols import ComparisonLike

MANY = range(40)


def better(share: int) -> Comparison:
    """Let new pass `share` of 40 tasks that old fails, and fail two that old passes."""
    return compared(
        {str(task): [1 if task < share else 0] for task in MANY}, {str(task): [1 if task >= 38 else 0] for task in MANY}
    )


def lines(figure: object, label: str) -> list[list[float]]:
    """Return the positions on the axis of points and lines with this label."""
    axes = figure.axes[0]  # type: ignore[attr-defined]
    return [[*map(float, line.get_xdata())] for line in axes.lines if str(line.get_label()).startswith(label)]


def test_interval_is_drawn_around_the_difference_with_zero_marked() -> None:
    one = better(20)
    figure = plots.differences(one)
    axes = figure.axes[0]
    assert [*axes.lines[0].get_xdata()] == [0, 0], "0 is marked"
    assert lines(figure, "difference") == [[one.difference]] == [[0.45]]
    (drawn,) = [found.get_segments()[0] for found in axes.collections]
    assert one.interval is not None and [point[0] for point in drawn] == pytest.approx(one.interval)
    assert names(figure) == ["new \N{MINUS SIGN} old"]
    said = " ".join(words(figure))
    assert "n = 40 tasks" in said and f"[{one.interval[0]:+.3g}, {one.interval[1]:+.3g}]" in said


def test_detectable_effect_is_shown_only_for_intervals_containing_zero() -> None:
    clear, open_ = better(20), better(4)
    assert clear.interval is not None and clear.interval[0] > 0 and open_.interval is not None and open_.interval[0] < 0
    figure = plots.differences([clear, open_])
    assert open_.mde is not None and lines(figure, "minimum detectable effect") == [[-open_.mde, open_.mde]]
    (effect,) = [line for line in figure.axes[0].lines if str(line.get_label()).startswith("minimum")]
    assert 1 < effect.get_ydata()[0] < 1.5, "below the second row"
    assert lines(figure, "no difference is shown") == [[open_.difference]]
    said = words(figure)
    assert sum("detectable: " in text for text in said) == 1 and any(f"detectable: {open_.mde:.2g}" in text for text in said)


def test_comparison_without_a_difference_names_what_is_missing() -> None:
    few = compared({"1": [1], "2": [0]}, {"1": [0], "2": [0]})
    figure = plots.differences([few, better(20)])
    assert lines(figure, "difference") == [[0.45]]
    (said,) = [text for text in figure.axes[1].texts if "needed" in text.get_text()]
    assert said.get_position() == (0, 0)
    assert " ".join(said.get_text().split()) == f"n = 2 tasks {few.missing}"
    assert "n = 2 to 40 tasks" in " ".join(words(figure))
    alone = plots.differences(few)
    assert alone.axes[0].get_xlim() == (-1, 1) and not lines(alone, "difference")


def test_identical_runs_have_no_point_at_zero() -> None:
    rows = [rows_of(name, {str(task): [1] for task in MANY}, digest="same") for name in ("new", "old")]
    figure = plots.differences(Comparison("new", "old", "passed", *rows))
    assert not lines(figure, "difference") and not figure.legends
    assert "same replies and calls" in " ".join(words(figure)) and "n = 40 tasks" in words(figure)


def test_uniformly_different_tasks_have_no_interval() -> None:
    figure = plots.differences(compared({str(task): [1] for task in MANY}, {str(task): [0] for task in MANY}))
    assert lines(figure, "difference") == [[1.0]] and not figure.axes[0].collections
    assert "+1 the same in each task" in words(figure)


def test_rounding_residue_near_zero_is_shown_as_zero() -> None:
    fields = {
        "a": "new",
        "b": "old",
        "primary": "passed",
        "missing": "",
        "is_shown": False,
        "rows_a": [],
        "rows_b": [],
        "tasks": 30,
        "mde": None,
    }
    one = SimpleNamespace(**fields, difference=-3.7e-18, interval=(-0.146, 0.146), p_value=1.0, p_adjusted=None)
    assert "+0 [-0.146, +0.146]" in words(plots.differences(cast("ComparisonLike", one)))


def test_several_variants_show_holm_p_values_and_measure_units() -> None:
    results = ran(("off", "matrix", "four", "eleven"))
    comparison = compare(results, primary="rounds")
    figure = plots.differences(comparison)
    assert names(figure) == [f"{name} \N{MINUS SIGN} off" for name in ("matrix", "four", "eleven")]
    assert sum("(Holm)" in text for text in words(figure)) == 3
    assert "Intervals are unadjusted; p values are Holm-adjusted" in words(figure)
    assert figure.axes[0].get_xlabel() == "difference in rounds (rounds)"
    with pytest.raises(SettingsError, match="do not share a unit"):
        plots.differences([*comparison, compare(results, "matrix", "off")])
    checks = Comparison("new", "old", "answered", rows_of("new", {}), rows_of("old", {}))
    assert names(plots.differences([better(4), checks])) == [
        f"new \N{MINUS SIGN} old, {name}" for name in ("passed", "answered")
    ]


def test_more_than_fifteen_comparisons_are_counted() -> None:
    figure = plots.differences([better(20)] * 17)
    assert len(names(figure)) == 15 and "2 more comparisons are not drawn" in words(figure)
    assert "There are no comparisons." in words(plots.differences([]))


def test_anything_but_comparisons_is_refused() -> None:
    for wrong in (5, "runs/", [better(4), None]):
        with pytest.raises(SettingsError, match="draws comparisons"):
            plots.differences(wrong)  # type: ignore[arg-type]
