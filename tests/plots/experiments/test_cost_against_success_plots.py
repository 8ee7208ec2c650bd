"""Cost against success."""

from __future__ import annotations

import pytest
from plotted_variants import ran, results_of, rows_of, words

from agentnb import plots
from agentnb.detect.intervals import mean_by_task, mean_interval, wilson
from agentnb.errors import SettingsError

PASSES = {f"t{task}": [float(task < 6)] for task in range(8)}
FAILS = {f"t{task}": [0.0] for task in range(8)}


def points(figure: object) -> dict[str, tuple[float, float]]:
    """Return the position of each variant."""
    found = figure.axes[0].lines  # type: ignore[attr-defined]
    return {line.get_label(): (line.get_xdata()[0], line.get_ydata()[0]) for line in found}


def test_variant_is_drawn_as_a_point_with_both_intervals() -> None:
    new = [
        *rows_of("new", {"t0": PASSES["t0"]}, rounds=3, cost=0.4),
        *rows_of("new", {task: PASSES[task] for task in [*PASSES][1:]}, rounds=3, cost=0.2),
    ]
    figure = plots.cost_against_success(results_of(new, rows_of("old", FAILS, rounds=3, cost=0.1)))
    drawn = points(figure)
    assert drawn == {"new (n = 8 runs)": pytest.approx((0.225, 0.75)), "old (n = 8 runs)": pytest.approx((0.1, 0.0))}
    across, upright = [found.get_segments()[0] for found in figure.axes[0].collections][:2]
    assert tuple(across[:, 0]) == pytest.approx(mean_interval([0.4, *[0.2] * 7])[1:])
    assert tuple(upright[:, 1]) == pytest.approx(wilson(6, 8)[1:])
    assert "passed: n = 16 runs of 8 tasks" in words(figure) and figure.axes[0].get_xlabel() == "US dollars per run (mean)"


def test_tokens_are_drawn_with_a_note_without_known_costs(subtests: pytest.Subtests) -> None:
    fields = {"rounds": 3, "input_tokens": 90, "output_tokens": 10}
    for name, cost in {"free": 0.0, "unknown": None}.items():
        with subtests.test(name):
            figure = plots.cost_against_success(results_of(rows_of("new", PASSES, cost=cost, **fields)))
            assert points(figure) == {"new (n = 8 runs)": (100.0, 0.75)}
            assert figure.axes[0].get_xlabel() == "tokens per run (mean)"
            assert "Tokens instead of cost: the cost is 0, or unknown for some runs" in words(figure)


def test_partially_known_cost_is_not_drawn() -> None:
    fields = {"rounds": 3, "input_tokens": 90, "output_tokens": 10}
    figure = plots.cost_against_success(
        results_of(rows_of("new", PASSES, cost=0.1, **fields), rows_of("old", FAILS, cost=None, **fields))
    )
    assert points(figure) == {"new (n = 8 runs)": (100.0, 0.75), "old (n = 8 runs)": (100.0, 0.0)}


def test_intervals_of_repeated_tasks_are_computed_by_task() -> None:
    rows = rows_of("new", {f"t{task}": [1.0, float(task < 6)] for task in range(8)}, rounds=3, cost=0.1)
    figure = plots.cost_against_success(results_of(rows))
    upright = figure.axes[0].collections[-1].get_segments()[0]
    assert tuple(upright[:, 1]) == pytest.approx(mean_by_task([[1, 0]] * 2 + [[1, 1]] * 6)[1:])


def test_order_of_finished_runs_does_not_matter() -> None:
    rows = [row for task in range(9) for row in rows_of("new", {f"t{task}": [task % 2, 1.0]}, rounds=3, cost=0.1 + task)]
    there, back = (plots.cost_against_success(results_of(each)).axes[0].collections for each in (rows, rows[::-1]))
    assert [one.get_segments()[0].tolist() for one in there] == [one.get_segments()[0].tolist() for one in back]


def test_unknown_values_are_counted_and_named() -> None:
    known, unknown = rows_of("new", PASSES, rounds=3, cost=0.1), rows_of("late", {"t0": [None]}, rounds=3, cost=0.1)
    begun = rows_of("new", {"t9": [0.0]})
    figure = plots.cost_against_success(results_of([*known, *begun], unknown))
    assert {"1 run without known cost: the means leave them out", "Not drawn: late"} <= {*words(figure)}
    nothing = plots.cost_against_success(results_of(rows_of("new", PASSES)))
    assert "Neither cost nor tokens are known, or no run has a known passed." in words(nothing)


def test_axis_fits_closely_around_similar_values() -> None:
    figure = plots.cost_against_success(
        results_of(rows_of("new", PASSES, rounds=3, cost=0.101), rows_of("old", FAILS, rounds=3, cost=0.1))
    )
    low, high = figure.axes[0].get_xlim()
    assert 0.09 < low < 0.1 and 0.101 < high < 0.11


def test_hidden_results_and_other_values_are_refused() -> None:
    covered = results_of(rows_of("new", PASSES, rounds=3, cost=0.1), is_covered=True)
    for plot in (plots.cost_against_success, plots.survival, plots.ledger):
        with pytest.raises(SettingsError, match="hidden"):
            plot(covered)
    with pytest.raises(SettingsError, match="draws results, not list"):
        plots.cost_against_success([])  # type: ignore[arg-type]


def test_simulated_experiment_is_drawn() -> None:
    results = ran(("off", "matrix", "four", "eleven"))
    means = results.means()
    drawn = points(plots.cost_against_success(results))
    assert {label.partition(" (")[0]: y for label, (_, y) in drawn.items()} == {name: means[name].value for name in means}
