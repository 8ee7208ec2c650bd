"""Rounds until the first loop, by variant."""

from __future__ import annotations

from pathlib import Path

from plotted_variants import ran, rows_of, words

from agentnb import compare, plots
from agentnb.experiments.results.comparison import Comparison
from agentnb.experiments.results.rows import Row


def arm(name: str, *times: tuple[int, int | None], **fields: str) -> list[Row]:
    """Build runs of a variant from their rounds and their first loop."""
    return [
        row
        for number, (rounds, loop) in enumerate(times)
        for row in rows_of(name, {f"t{number}": [1.0]}, rounds=rounds, loop_round=loop, **fields)
    ]


def test_each_variant_has_a_curve_with_limited_runs_censored() -> None:
    cut = {"status": "limited", "stop_reason": "max_rounds"}
    new, old = arm("new", (9, None), (6, 4), (9, None), (9, None), **cut), arm("old", (6, 3), (6, 3), (5, None), (9, 6), **cut)
    figure = plots.survival(Comparison("new", "old", "passed", new, old))
    by_label = {line.get_label(): line for line in figure.axes[0].lines}
    assert {*by_label} == {
        "new (n = 4 runs, 1 with a loop)",
        "old (n = 4 runs, 3 with a loop)",
        "cut short without one (censored)",
    }
    curve = by_label["new (n = 4 runs, 1 with a loop)"]
    assert ([*curve.get_xdata()], [*curve.get_ydata()]) == ([0, 4, 9], [0, 0.25, 0.25])
    curve = by_label["old (n = 4 runs, 3 with a loop)"]
    assert ([*curve.get_xdata()], [*curve.get_ydata()]) == ([0, 3, 6, 6], [0, 0.5, 1, 1])
    marks = [[*line.get_xdata()] for line in figure.axes[0].lines if line.get_label().startswith("cut short")]
    assert marks == [[9, 9, 9], [5]]
    assert "n = 8 runs: 4 with a loop, 0 completed without a loop, 4 censored" in words(figure)


def test_loops_count_in_their_round_not_at_the_end() -> None:
    steps = Comparison("new", "old", "passed", arm("new", (9, 2)), arm("old", (9, 7))).survival
    assert [steps.a.steps[0].round, steps.b.steps[0].round] == [2, 7]


def test_survival_plot_of_a_comparison_names_grays_test() -> None:
    comparison = compare(ran(), "matrix", "off")
    p_value = comparison.survival.p_value
    assert p_value is not None
    named = f"Gray's test, with the arms of whole tasks swapped: p = {p_value:.2g}"
    assert named in " ".join(words(plots.survival(comparison))) and "Gray" not in " ".join(words(plots.survival([comparison])))


def test_folder_runs_are_separated_by_variant_tags(tmp_path: Path) -> None:
    results = ran(folder=tmp_path / "experiment")
    of_runs, of_results = plots.survival(tmp_path / "experiment", families=["loop"]), plots.survival(results)
    curves = [
        {line.get_label(): [*line.get_ydata()] for line in figure.axes[0].lines if "n = " in line.get_label()}
        for figure in (of_runs, of_results)
    ]
    assert curves[0] == curves[1] and len(curves[0]) == 2
