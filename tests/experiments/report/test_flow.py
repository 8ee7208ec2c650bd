"""The flow of runs: its numbers recounted row by row."""

from __future__ import annotations

from made_results import CALLED, results_from, row

from agentnb import compare
from agentnb.experiments.report.flow import COLUMNS, LATER, flow_alone, flow_of
from agentnb.experiments.results.rows import NOT_RUN


def test_each_planned_run_is_counted_once() -> None:
    ends = {
        "passed": {},
        "unknown": {"values": {CALLED: None}},
        "failed": {"status": "failed", "stop_reason": "server_error", "values": {}},
        "limited": {"status": "limited", "stop_reason": "max_rounds"},
    }
    kinds = {
        "a": ["passed"] * 7 + ["unknown", "failed", "limited"],
        "b": ["failed", "failed", "unknown"] + ["passed"] * 6 + [""],
    }
    rows = [row(arm, f"t{place}", True, **ends[kind]) for arm in "ab" for place, kind in enumerate(kinds[arm]) if kind]
    not_run = [row("b", "t9", None, status=NOT_RUN, values={})]
    results = results_from(rows, not_run=not_run, missing=1)
    grid = flow_of(compare(results, "a", "b"), {"a": 14, "b": 14})
    assert grid.headings == ["variant", *COLUMNS]
    has_value = {arm: [kind in ("passed", "limited") for kind in kinds[arm]] for arm in "ab"}
    paired = sum(a and b for a, b in zip(has_value["a"], has_value["b"], strict=True))
    for (name, *told), arm in zip(grid.rows, "ab", strict=True):
        count = kinds[arm].count
        assert name == arm
        assert [int(number) for number in told] == [
            14,
            4,
            count(""),
            10 - count(""),
            count("failed"),
            count("unknown"),
            sum(has_value[arm]) - paired,
            paired,
        ]
        planned, later, not_made, run, *parts = map(int, told)
        assert planned == later + not_made + run and run == sum(parts)


def test_flow_of_a_single_variant_counts_runs_with_values() -> None:
    rows = [row("a", f"t{place}", None if place == 2 else True) for place in range(6)]
    results = results_from(rows, not_run=[row("a", "t6", None, status=NOT_RUN, values={})], missing=1)
    grid = flow_alone(results, {"a": 7})
    counts = dict(zip(grid.headings, grid.rows[0], strict=True))
    assert counts == {
        "variant": "a",
        "planned": "7",
        "not run": "1",
        "run": "6",
        "failed": "0",
        "value missing": "1",
        "left out": "0",
        "analysed": "5",
    }


def test_later_runs_column_appears_only_at_a_planned_look() -> None:
    results = results_from([row(arm, f"t{place}", True) for arm in "ab" for place in range(6)])
    assert LATER not in flow_of(compare(results, "a", "b"), {"a": 6, "b": 6}).headings
