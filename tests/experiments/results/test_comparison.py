"""Comparisons: paired by task, with the facts a reader needs beside each number."""

from __future__ import annotations

from dataclasses import replace as replace_fields
from typing import Any

import pytest
from msgspec.structs import replace
from small_experiments import CHATTY, rows, small, was_called

from agentnb import Experiment, compare, load_traces
from agentnb.errors import SettingsError
from agentnb.experiments.results.comparison import Comparison, format_with_limits
from agentnb.experiments.results.rows import Row
from agentnb.experiments.statistics.equivalence import Equivalence
from agentnb.experiments.statistics.minimum_effect import estimate_minimum_effect
from agentnb.experiments.statistics.paired import Difference
from agentnb.experiments.statistics.ratios import Ratio
from agentnb.experiments.views.comparison_view import comparison_text
from agentnb.experiments.views.numbers import format_estimate, format_ratio


def arm(variant: str, values: dict[str, list[Any]], **fields: Any) -> list[Row]:
    """Build rows of a variant from values by task: unknown if None, the status of an incomplete run if a text."""
    found = []
    for task, of_task in values.items():
        for repeat, value in enumerate(of_task):
            status = value if isinstance(value, str) else "completed"
            given = {"values": {"ok": True if status == value else value}, "status": status, "digest": f"{task}{value}"}
            named = {"key": f"{variant}{task}{repeat}", "task": task, "model": "m", "repeat": repeat, "seed": 0}
            found.append(Row(**{**named, **given, "variant": variant, "run_id": f"{variant}{task}{repeat}", **fields}))
    return found


def comparison(a: dict[str, list[Any]], b: dict[str, list[Any]], **fields: Any) -> Comparison:
    return Comparison("a", "b", "ok", arm("a", a), arm("b", b), **fields)


TEN = {f"t{n}": [n < 7] for n in range(10)}
NONE = {f"t{n}": [False] for n in range(10)}


def test_difference_is_a_minus_b_with_interval_and_p() -> None:
    found = comparison(TEN, NONE)
    assert found.difference == pytest.approx(0.7) and found.tasks == 10
    assert found.interval is not None and found.interval[0] > 0 and found.p_value is not None and found.p_value < 0.05
    swapped = comparison(NONE, TEN)
    assert swapped.difference == pytest.approx(-0.7) and swapped.p_value == found.p_value


def test_incomplete_runs_fail_first_and_are_excluded_in_second_analysis() -> None:
    limited = {f"t{n}": ["limited" if n == 0 else n < 7] for n in range(10)}
    found = comparison(limited, NONE)
    assert found.difference == pytest.approx(0.6)
    assert found.of_completed.tasks == 9
    assert found.counts["a"] == found.counts["b"] == {"scored": 10, "unknown": 0, "failed": 0, "not run": 0}


def test_tasks_with_unknown_values_are_excluded() -> None:
    found = comparison({**TEN, "t0": [None]}, NONE)
    assert found.tasks == 9


def test_too_few_or_unpaired_tasks_are_explained() -> None:
    few = {name: values for name, values in TEN.items() if name < "t4"}
    for a, b in ((few, NONE), (TEN, {f"x{n}": [True] for n in range(10)})):
        found = comparison(a, b)
        assert found.difference is None and found.interval is None and found.p_value is None and found.mde is None
        assert "are needed: run both variants" in found.missing and found.missing in repr(found)


def test_identical_arms_have_no_interval() -> None:
    found = comparison(TEN, TEN)
    assert found.is_identical and found.interval is None and "the same replies and calls" in repr(found)


def test_inconclusive_comparison_states_the_detectable_effect() -> None:
    thirty = {f"t{n}": [n % 3 > 0] for n in range(30)}
    found = comparison(thirty, {**thirty, "t1": [False], "t9": [True]})
    assert found.p_value is not None and found.p_value > 0.05 and found.mde is not None and 0 < found.mde < 1
    few = comparison(TEN, {**TEN, "t0": [False], "t9": [True]})
    assert few.mde is None  # not even if all of ten tasks passed


def test_flips_list_both_runs_of_each_task() -> None:
    found = comparison(TEN, NONE).flips
    assert [*found.task] == [f"t{n}" for n in range(7)]
    assert [*found.run_a] == [f"at{n}0" for n in range(7)] and [*found.run_b] == [f"bt{n}0" for n in range(7)]


def test_single_repeat_is_tested_with_exact_mcnemar() -> None:
    found = comparison(TEN, NONE).discordant
    assert found is not None and (found.only_a, found.only_b) == (7, 0)
    twice = {task: values * 2 for task, values in TEN.items()}
    assert comparison(twice, NONE).discordant is None
    assert [share.k for share in comparison(twice, twice).pass_k["a"]] == [1, 2]


def in_clusters(*rows: Row, size: int = 2) -> list[Row]:
    return [replace(row, cluster=f"c{int(row.task[1:]) // size}") for row in rows]


def test_clusters_are_the_units_and_tasks_weigh_equally() -> None:
    few = Comparison("a", "b", "ok", in_clusters(*arm("a", TEN)), in_clusters(*arm("b", NONE)))
    assert few.difference is None and few.missing.startswith("5 paired clusters, 6 are needed: add tasks from other clusters")
    assert few.tasks == 10
    assert "10 paired, in 5 clusters of 2" in comparison_text(few)
    assert "5 paired clusters" in format_estimate(few.analysis)
    places = {f"t{n}": "large" if n < 20 else f"c{n // 2}" for n in range(30)}
    arms = [
        [
            replace(row, cluster=places[row.task])
            for row in arm(name, {task: [(task < "t2") == (name == "a")] for task in places})
        ]
        for name in "ab"
    ]
    comparison = Comparison("a", "b", "ok", *arms)
    values = {unit.task: unit.a[0] - unit.b[0] for unit in comparison.units}
    assert comparison.difference == pytest.approx(sum(values.values()) / 30) and comparison.tasks == 30
    assert isinstance(comparison.analysis, Difference) and sorted(comparison.analysis.sizes) == [2, 2, 2, 2, 2, 20]
    alone = Comparison("a", "b", "ok", *[[replace(row, cluster="") for row in of] for of in arms])
    assert alone.p_value is not None and comparison.p_value is not None and comparison.p_value > alone.p_value


def test_unpaired_task_is_dropped_from_its_cluster() -> None:
    twelve = {f"t{n}": [True] for n in range(12)}
    a, b = arm("a", {**twelve, "t0": [None]}), arm("b", {**twelve, "t0": [False], "t1": [False]})
    comparison = Comparison("a", "b", "ok", in_clusters(*a), in_clusters(*b))
    alone = Comparison("a", "b", "ok", in_clusters(*a[1:]), in_clusters(*b[1:]))
    assert comparison.difference == alone.difference and [unit.task for unit in comparison.left_out] == ["t0"]


def test_missing_values_that_could_change_a_result_are_noted(subtests: pytest.Subtests) -> None:
    passing = {f"t{n}": [True] for n in range(20)}
    failing = {f"t{n}": [False] for n in range(20)}
    half = {f"t{n}": [None if n % 2 else False] for n in range(20)}
    even = {f"t{n}": [n % 2 == 0] for n in range(20)}
    cases = {
        "turns": (even, half, True, "10 missing values could change whether a difference is shown"),
        "turns from the other side": (half, even, True, "10 missing values could change whether a difference is shown"),
        "holds although many are missing": (
            passing,
            half,
            False,
            "10 missing values cannot change whether a difference is shown",
        ),
        "holds": ({**passing, "t0": [None]}, failing, False, "1 missing value cannot change whether a difference is shown"),
        "repeats hold": (
            {**{task: [True] * 2 for task in passing}, "t0": [True, None]},
            {task: [False] * 2 for task in failing},
            False,
            "With 1 missing value at either extreme, a difference is shown; mixtures were not tried",
        ),
        "no difference holds": ({**passing, "t0": [None]}, {**passing, "t0": [None]}, False, "2 missing values cannot"),
        "no difference turns": (
            {**half, "t1": [True]},
            half,
            True,
            "19 missing values could change whether a difference is shown",
        ),
        "nothing is missing": (passing, failing, None, ""),
    }
    for name, (a, b, turns, told) in cases.items():
        with subtests.test(name):
            found = comparison(a, b)
            assert found.could_turn is turns and found.robustness.startswith(told) and told in repr(found)
    lowest, highest = comparison(even, half).extremes or (None, None)
    assert isinstance(lowest, Difference) and lowest.value == 0 and lowest.tasks == 20
    assert isinstance(highest, Difference) and highest.value == 0.5
    assert [cell.state for cell in comparison(passing, half).cells[1]].count("unknown") == 10


def test_missing_numbers_are_bounded_by_stated_or_observed_limits() -> None:
    a = {f"t{n}": [3.0 + n % 3] for n in range(12)}
    b = {f"t{n}": [2.0 + n % 4 if n else None] for n in range(12)}
    seen, stated = comparison(a, b), comparison(a, b, limits=(0.0, 100.0))
    told = "With 1 missing value at either extreme{}, no difference is shown; mixtures were not tried"
    assert seen.value_limits == (2.0, 5.0) and seen.robustness == told.format(" of the values seen")
    assert stated.value_limits == (0.0, 100.0) and stated.robustness == told.format("")
    scores = comparison({**TEN, "t0": [None], "t1": [0.5]}, NONE)
    assert scores.value_limits == (0.0, 1.0) and scores.robustness.startswith("With 1 missing value at either extreme of the")
    low, high = stated.extremes or (None, None)
    assert isinstance(low, Difference) and isinstance(high, Difference) and high.value - low.value == pytest.approx(100 / 12)
    with pytest.raises(SettingsError, match="below the second"):
        compare(small(2).run_sync(show=False), "matrix", "off", limits=(1.0, 1.0))


def test_equivalence_states_missing_values_that_could_change_it(subtests: pytest.Subtests) -> None:
    """Imputed by hand at both extremes: the test of the tasks with them decides."""
    full, some = {f"t{n}": [n % 3 > 0] for n in range(90)}, {f"t{n}": [n % 3 > 0 if n % 9 != 4 else False] for n in range(90)}
    for lost, turns in ((0, False), (1, False), (30, True)):
        with subtests.test(f"{lost} lost"):
            found = comparison(full, {**some, **{f"t{n}": [None] for n in range(lost)}}).equivalence(0.2)
            assert isinstance(found, Equivalence) and found.is_equivalent and found.turned_by == (lost if turns else 0)
            filled = [comparison(full, {**some, **{f"t{n}": [worst] for n in range(lost)}}) for worst in (True, False)]
            ends = [one.equivalence(0.2).is_equivalent for one in filled]  # type: ignore[union-attr]
            assert all(ends) == (not turns) == (not repr(found).endswith(f"; missing values ({lost}) could change this"))


def test_too_few_pairs_are_reported_with_a_remedy() -> None:
    found = {
        "1 paired task, 6 are needed: add tasks": ({"t": [1]}, {"t": [0]}),
        "1 paired task, 6 are needed: run both variants on the same tasks": ({"t": [1], "u": [1]}, {"t": [0], "v": [1]}),
        "2 paired tasks, 6 are needed: 1 missing value": (
            {"t": [1], "u": [1], "v": [1]},
            {"t": [0], "u": [1], "v": [None]},
        ),
    }
    for sentence, arms in found.items():
        assert comparison(*arms).missing == sentence


def test_differing_shares_of_missing_values_are_a_warning() -> None:
    found = comparison({**TEN, "t0": [None]}, NONE)
    assert [line.endswith("a 1 of 10, b 0 of 10") for line in found.warnings] == [True]
    assert comparison({**TEN, "t0": [None]}, {**NONE, "t1": [None]}).warnings == ()


def test_pending_cells_count_as_missing_values_that_could_change_results(tmp_path: Any) -> None:
    experiment = small(12, folder=tmp_path / "exp", places=1)
    experiment.run_sync(show=False)
    path = tmp_path / "exp" / "experiment.rows"
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(lines[:-5]))
    comparison = compare(experiment.results(peek=True), "matrix", "off")
    assert sum(states["not run"] for states in comparison.counts.values()) == 5
    assert all(sum(states.values()) == 12 for states in comparison.counts.values()) and comparison.missing_values == 5
    assert comparison.extremes is not None and all(one.tasks == 12 for one in comparison.extremes)


def test_difference_of_incomplete_runs_is_separate() -> None:
    limited = {f"t{n}": ["limited" if n < 9 else True] for n in range(20)}
    found = comparison({f"t{n}": [True] for n in range(20)}, limited)
    assert found.difference == pytest.approx(0.45) and found.rests_on_incomplete
    assert not comparison(TEN, NONE).rests_on_incomplete


def test_adjusted_p_decides_what_missing_values_can_change() -> None:
    turned = set()
    for passing in range(3, 12):
        unadjusted = comparison(
            {f"t{n}": [None if n == 39 else n < passing] for n in range(40)}, {f"t{n}": [False] for n in range(40)}
        )
        assert isinstance(unadjusted.analysis, Difference) and unadjusted.extremes is not None
        adjusted = replace_fields(unadjusted, family=2, p_adjusted=2 * unadjusted.analysis.p_value)
        was, *ends = [one.p_value < 0.025 for one in (unadjusted.analysis, *unadjusted.extremes) if isinstance(one, Difference)]
        assert (adjusted.is_shown, adjusted.could_turn) == (was, any(end != was for end in ends))
        word = "could" if adjusted.could_turn else "cannot"
        assert adjusted.robustness == f"1 missing value {word} change whether a difference is shown after adjusting"
        turned.add((unadjusted.could_turn, adjusted.could_turn))
    assert {(False, True)} <= turned


def test_passes_of_a_wider_range_leave_mixtures_open() -> None:
    values = {f"t{n}": [None if n == 11 else float(n < 9)] for n in range(12)}
    wide = comparison(values, {f"t{n}": [0.0] for n in range(12)}, limits=(0.0, 10.0))
    assert "mixtures were not tried" in wide.robustness or wide.could_turn


def test_flips_are_counted_only_between_known_values() -> None:
    found = comparison({**TEN, "t0": [None], "t1": ["failed"]}, NONE).flips
    assert [*found.task] == [f"t{n}" for n in range(2, 7)]


def test_models_may_contribute_different_pairs() -> None:
    tasks, rates = range(20), {"easy": True, "hard": False}
    a = [row for model, ok in rates.items() for row in arm("a", {f"t{n}": [ok] for n in tasks}, model=model)]
    lost = [replace(row, values={"ok": None}) if row.model == "hard" else row for row in a]
    b = [replace(row, variant="b", key=f"b{row.key}") for row in a]
    comparison = Comparison("a", "b", "ok", lost, b)
    assert comparison.difference == 0 and len(comparison.left_out) == 20
    assert comparison.flips.empty and [share.tasks for share in Comparison("a", "b", "ok", a, b).pass_k["a"]] == [20]


def test_second_cost_analysis_excludes_runs_cut_short() -> None:
    def priced(name: str, cost: float) -> list[Row]:
        early = [f"t{n}" for n in range(4)] if name == "a" else []
        values = {f"t{n}": ["limited" if f"t{n}" in early else True] for n in range(12)}
        return [replace(row, cost=cost * (10 if row.task in early else 1)) for row in arm(name, values)]

    comparison = Comparison("a", "b", "ok", priced("a", 2.0), priced("b", 1.0))
    assert comparison.ratios["cost"].tasks == 12 and comparison.ratios_of_completed["cost"].tasks == 8
    completed = comparison.ratios_of_completed["cost"]
    assert isinstance(completed, Ratio) and completed.value == pytest.approx(2.0)
    failed = [replace(row, status="failed", cost=0.0001) if row.task == "t0" else row for row in comparison.rows_b]
    assert Comparison("a", "b", "ok", comparison.rows_a, failed).ratios["cost"].tasks == 11, (
        "a run that died at once has no cost"
    )


def test_ratio_of_typical_tasks_is_not_that_of_totals() -> None:
    """In the tasks by a half less or a half more; the largest task alone makes the totals grow."""
    costs = {"a": [1.0] * 11 + [300.0], "b": [2.0] * 11 + [200.0]}
    arms = [
        [replace(row, cost=cost) for row, cost in zip(arm(name, {f"t{n:02}": [True] for n in range(12)}), of, strict=True)]
        for name, of in costs.items()
    ]
    found = Comparison("a", "b", "ok", *arms)
    less = 100 * (1 - (0.5**11 * 1.5) ** (1 / 12))
    assert format_ratio(found.ratios["cost"], "a").startswith(f"in a typical task, 'a' has {less:.0f} % less (95 % interval ")
    assert sum(costs["a"]) > sum(costs["b"]) and "geometric mean of the tasks' ratios" in comparison_text(found)


def test_only_identical_runs_are_called_identical() -> None:
    a, b = arm("a", TEN), arm("b", TEN)
    assert Comparison("a", "b", "ok", a, b).missing.startswith("Every pair of runs has the same replies and calls")
    priced = [replace(row, input_tokens=10, output_tokens=1) for row in b]
    differing = Comparison("a", "b", "ok", [replace(row, input_tokens=9, output_tokens=1) for row in a], priced)
    assert differing.is_identical and differing.missing.endswith("They differ in tokens")
    assert not Comparison("a", "b", "ok", a, b[1:]).is_identical, "a task has no partner"


def test_each_looping_run_counts_in_its_first_loop_round() -> None:
    a, b = (arm(name, TEN, rounds=6, loop_round=3 if name == "a" else None) for name in "ab")
    found = Comparison("a", "b", "ok", a, b).survival
    assert [step.round for step in found.a.steps if step.share] == [3] and (found.a.events, found.b.events) == (10, 0)


def test_comparison_records_its_experiment_id() -> None:
    results = small(2).run_sync(show=False)
    assert compare(results, "matrix", "off").experiment == results.plan.id == compare(results)[0].experiment
    assert repr(compare(results)) == "\n\n".join(map(repr, compare(results))), "as text, not as a list"


def test_each_further_variant_is_compared_with_the_first_and_adjusted() -> None:
    results = small(6, {"off": "off", "one": "matrix", "two": {"policy": "minimal"}}).run_sync(show=False)
    comparison = compare(results)
    assert [(one.a, one.b) for one in comparison] == [("one", "off"), ("two", "off")]
    six = {
        "rows_a": arm("a", {f"t{n:02}": [n < 6] for n in range(40)}),
        "rows_b": arm("b", {f"t{n:02}": [False] for n in range(40)}),
    }
    alone = Comparison("a", "b", "ok", **six)
    adjusted = replace_fields(alone, family=2, p_adjusted=2 * alone.p_value)  # type: ignore[operator]
    assert alone.p_value < 0.05 < adjusted.p_adjusted  # type: ignore[operator]
    assert ["detectable" in repr(one) for one in (alone, adjusted)] == [False, True]
    halves = [[n % 2 == 0] for n in range(40)], [[n % 2 > 0] for n in range(40)]
    of_two = Comparison(
        "a",
        "b",
        "ok",
        *[arm(name, {f"t{n:02}": [*of] for n, of in enumerate(half)}) for name, half in zip("ab", halves, strict=True)],
        family=2,
    )
    assert of_two.mde == estimate_minimum_effect(*halves, alpha=0.025) > estimate_minimum_effect(*halves)  # type: ignore[operator]
    assert all(one.p_value is None or one.p_adjusted >= one.p_value for one in comparison)  # type: ignore[operator]


def test_measures_can_be_compared_without_a_check() -> None:
    results = small(6).run_sync(show=False)
    assert compare(results, "matrix", "off", primary="rounds").difference == 0


def test_unknown_names_are_refused_with_similar_ones() -> None:
    results = small(2).run_sync(show=False)
    for call, match in (
        (lambda: compare(results, "matrx", "off"), "matrix"),
        (lambda: compare(results, "matrix", "off", primary="called"), "was_called"),
        (lambda: compare(results, "matrix"), "needs two variants"),  # type: ignore[call-overload]
    ):
        with pytest.raises(SettingsError, match=match):
            call()


def test_two_sets_of_recorded_runs_are_paired_by_task(tmp_path: Any) -> None:
    settings = {"models": [CHATTY], "primary": was_called, "agent": {"tools": [small.__globals__["check_line"]]}}
    for name in ("off", "matrix"):
        Experiment(rows(6), {name: name}, folder=tmp_path / name, **settings).run_sync(show=False)
    comparison = compare(tmp_path / "matrix", load_traces(tmp_path / "off"), primary=was_called, names=("new", "old"))
    assert (comparison.a, comparison.b, comparison.tasks) == ("new", "old", 6)
    assert comparison.primary == "was_called" and comparison.difference is not None
    by_outcome = compare(tmp_path / "matrix", tmp_path / "off")
    assert by_outcome.primary == "passed" and by_outcome.tasks == 6
    assert comparison.diff("t0") is not None


def test_differences_and_limits_share_decimals_and_never_round_to_zero() -> None:
    assert format_with_limits(0.25, (-0.00701, 0.462)) == "+0.250 [-0.007, +0.462]"
    assert format_with_limits(0.25, (0.0004, 0.462)) == "+0.250 [+0.0004, +0.462]"
    assert format_with_limits(-600.0, (-1234.5, 8.25)) == "-600 [-1234, +8]"
    assert format_with_limits(0.5, (0.19, 0.75)) == "+0.50 [+0.19, +0.75]"
    assert format_with_limits(0.0, (0.0, 0.0)) == "0 [0, 0]"
    assert format_with_limits(0.25, None) == "+0.25"
