"""Rounds until the first loop, by variant."""

from __future__ import annotations

from pathlib import Path

from plotted_variants import ran, rows_of, words

from agentnb import compare, plots
from agentnb.experiments.results.comparison import Comparison
from agentnb.experiments.results.rows import Row


def arm(name: str, *times: tuple[int, int | None]) -> list[Row]:
    """Runs of a variant: their rounds, and the first one with a loop."""
    return [
        row
        for number, (rounds, loop) in enumerate(times)
        for row in rows_of(name, {f"t{number}": [1.0]}, rounds=rounds, loop_round=loop)
    ]


def test_each_variant_has_a_curve_and_limits_are_censored() -> None:
    new, old = arm("new", (9, None), (6, 4), (9, None), (9, None)), arm("old", (6, 3), (6, 3), (5, None), (9, 6))
    figure = plots.survival(Comparison("new", "old", "passed", new, old))
    by_label = {line.get_label(): line for line in figure.axes[0].lines}
    assert {*by_label} == {
        "new (n = 4 runs, 1 with a loop)",
        "old (n = 4 runs, 3 with a loop)",
        "ended without one (censored)",
    }
    curve = by_label["new (n = 4 runs, 1 with a loop)"]
    assert ([*curve.get_xdata()], [*curve.get_ydata()]) == ([0, 4, 9], [1.0, 0.75, 0.75])
    curve = by_label["old (n = 4 runs, 3 with a loop)"]
    assert ([*curve.get_xdata()], [*curve.get_ydata()]) == ([0, 3, 6, 6], [1.0, 0.5, 0.0, 0.0])
    marks = [[*line.get_xdata()] for line in figure.axes[0].lines if line.get_label().startswith("ended")]
    assert marks == [[9, 9, 9], [5]]
    assert "n = 8 runs: 4 with a loop, 4 censored" in words(figure)


def test_the_log_rank_test_of_a_comparison_is_named() -> None:
    comparison = compare(ran(), "matrix", "off")
    p_value = comparison.survival.p_value
    assert p_value is not None
    assert f"Log-rank test, with runs taken as independent: p = {p_value:.2g}" in " ".join(words(plots.survival(comparison)))
    assert "Log-rank" not in " ".join(words(plots.survival([comparison])))


def test_runs_of_a_folder_are_parted_by_the_tags_of_their_variants(tmp_path: Path) -> None:
    results = ran(folder=tmp_path / "experiment")
    of_runs, of_results = plots.survival(tmp_path / "experiment", families=["loop"]), plots.survival(results)
    curves = [
        {line.get_label(): [*line.get_ydata()] for line in figure.axes[0].lines if "n = " in line.get_label()}
        for figure in (of_runs, of_results)
    ]
    assert curves[0] == curves[1] and len(curves[0]) == 2
