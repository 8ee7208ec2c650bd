"""Comparisons: paired by task, with what a reader must know beside each number."""

from __future__ import annotations

from typing import Any

import pytest
from small_experiments import CHATTY, rows, small, was_called

from agentnb import Experiment, compare, load_traces
from agentnb.errors import SettingsError
from agentnb.experiments.results.comparison import Comparison
from agentnb.experiments.results.rows import Row


def arm(variant: str, values: dict[str, list[Any]], **fields: Any) -> list[Row]:
    """Rows of a variant: the values of each task; None is unknown, "limited" did not complete."""
    found = []
    for task, of_task in values.items():
        for repeat, value in enumerate(of_task):
            status = "completed" if value != "limited" else "limited"
            given = {"values": {"ok": True if status == "limited" else value}, "status": status, "digest": f"{task}{value}"}
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


def test_runs_that_did_not_complete_have_not_passed_and_are_left_out_second() -> None:
    limited = {f"t{n}": ["limited" if n == 0 else n < 7] for n in range(10)}
    found = comparison(limited, NONE)
    assert found.difference == pytest.approx(0.6)
    assert found.of_completed.tasks == 9
    assert found.counts["a"] == found.counts["b"] == {"scored": 10, "unknown": 0, "failed": 0, "not run": 0}


def test_unknown_values_leave_their_task_out() -> None:
    found = comparison({**TEN, "t0": [None]}, NONE)
    assert found.tasks == 9


def test_too_few_or_unpaired_tasks_say_what_is_missing() -> None:
    few = {name: values for name, values in TEN.items() if name < "t4"}
    for a, b in ((few, NONE), (TEN, {f"x{n}": [True] for n in range(10)})):
        found = comparison(a, b)
        assert found.difference is None and found.interval is None and found.p_value is None and found.mde is None
        assert "are needed for a number" in found.missing and found.missing in repr(found)


def test_identical_arms_have_no_interval() -> None:
    found = comparison(TEN, TEN)
    assert found.is_identical and found.interval is None and "identical" in repr(found)


def test_effect_that_could_have_been_seen_stands_beside_no_difference() -> None:
    b = {**TEN, "t0": [False], "t9": [True]}
    found = comparison(TEN, b)
    assert found.p_value is not None and found.p_value > 0.05
    assert found.mde is not None and found.mde > 0.2


def test_flips_name_both_runs() -> None:
    found = comparison(TEN, NONE).flips
    assert [*found.task] == [f"t{n}" for n in range(7)]
    assert [*found.run_a] == [f"at{n}0" for n in range(7)] and [*found.run_b] == [f"bt{n}0" for n in range(7)]


def test_one_repeat_has_an_exact_mcnemar_test_and_more_have_none() -> None:
    found = comparison(TEN, NONE).discordant
    assert found is not None and (found.only_a, found.only_b) == (7, 0)
    twice = {task: values * 2 for task, values in TEN.items()}
    assert comparison(twice, NONE).discordant is None
    assert [share.k for share in comparison(twice, twice).pass_k["a"]] == [1, 2]


def test_clusters_count_as_one_task_each() -> None:
    a, b = arm("a", TEN), arm("b", NONE)
    clustered = [
        [
            Row(**{name: getattr(row, name) for name in row.__struct_fields__} | {"cluster": f"c{int(row.task[1:]) // 2}"})
            for row in rows
        ]
        for rows in (a, b)
    ]
    assert Comparison("a", "b", "ok", *clustered).tasks == 5


def test_each_further_variant_is_compared_with_the_first_and_adjusted() -> None:
    results = small(6, {"off": "off", "one": "matrix", "two": {"policy": "minimal"}}).run_sync(show=False)
    found = compare(results)
    assert [(one.a, one.b) for one in found] == [("one", "off"), ("two", "off")]
    assert all(one.p_value is None or one.p_adjusted >= one.p_value for one in found)  # type: ignore[operator]


def test_measures_compare_without_a_check() -> None:
    results = small(6).run_sync(show=False)
    assert compare(results, "matrix", "off", primary="rounds").difference == 0


def test_unknown_names_are_refused_with_near_ones() -> None:
    results = small(2).run_sync(show=False)
    for call, match in (
        (lambda: compare(results, "matrx", "off"), "matrix"),
        (lambda: compare(results, "matrix", "off", primary="called"), "was_called"),
        (lambda: compare(results, "matrix"), "Two variants are compared"),  # type: ignore[call-overload]
    ):
        with pytest.raises(SettingsError, match=match):
            call()


def test_two_sets_of_recorded_runs_are_paired_by_task(tmp_path: Any) -> None:
    settings = {"models": [CHATTY], "primary": was_called, "agent": {"tools": [small.__globals__["check_line"]]}}
    for name in ("off", "matrix"):
        Experiment(rows(6), {name: name}, folder=tmp_path / name, **settings).run_sync(show=False)
    found = compare(tmp_path / "matrix", load_traces(tmp_path / "off"), primary=was_called, names=("new", "old"))
    assert (found.a, found.b, found.tasks) == ("new", "old", 6)
    assert found.primary == "was_called" and found.difference is not None
    by_outcome = compare(tmp_path / "matrix", tmp_path / "off")
    assert by_outcome.primary == "passed" and by_outcome.tasks == 6
    assert found.diff("t0") is not None
