"""Notes of results and comparisons: how the experiment was run and read, from its record."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from asserted_sentences import Snapshot
from made_results import results_from, results_of, row

from agentnb import compare
from agentnb.experiments.results.experiment_folder import Plan

ARMS = {"a": [1] * 8, "b": [0, 1] * 4, "c": [0] * 8}


def frozen(primary: str, arms: dict[str, Any]) -> Any:
    return replace(results_of(arms), plan=Plan("c0ac", "hash", {"primary": primary}))


def test_comparison_notes_an_unfrozen_primary(snapshot: Snapshot) -> None:
    results = frozen("called", {name: ARMS[name] for name in ("a", "b")})
    assert compare(results, "a", "b").notes == ()
    assert compare(results, "a", "b", primary="rounds").notes == snapshot


def test_comparing_one_of_several_pairs_notes_the_missing_adjustment(snapshot: Snapshot) -> None:
    results = frozen("called", ARMS)
    assert compare(results, "a", "b").notes == snapshot
    assert [(one.notes, one.p_adjusted is None) for one in compare(results)] == [((), False)] * 2


def test_unanswered_and_limited_runs_are_noted_by_variant(snapshot: Snapshot) -> None:
    limited = {"status": "limited", "values": {}}
    rows = [
        row("a", "t0", True, unanswered=2),
        row("a", "t1", True, unanswered=1, stop_reason="max_rounds", **limited),
        row("b", "t0", True, stop_reason="max_rounds", **limited),
        row("b", "t1", True, stop_reason="max_seconds", **limited),
    ]
    covered = results_from(rows, missing=1, is_covered=True)
    assert results_from(rows).notes == snapshot("open") and covered.notes == snapshot("covered")
    assert "'a' " not in repr(covered)


def test_check_errors_are_quoted_only_after_the_last_run() -> None:
    rows = [row("a", "t0", None, check_errors={"called": "KeyError: 'a'"}), row("b", "t0", True)]
    note = "a check raised an error, so values are unknown in 1 run"
    assert results_from(rows).notes == (f"{note} (called: KeyError: 'a')",)
    assert results_from(rows, missing=1, is_covered=True).notes == ("1 run missing", note)


def test_default_primary_explains_itself_and_names_missing_tools(snapshot: Snapshot) -> None:
    rows = [row("a", "t0", True, has_tools=False), row("b", "t0", True, lacked=("look_up", "fetch")), row("b", "t1", True)]
    assert results_from(rows, primary="answered").notes == snapshot
    assert results_from(rows).notes == ()
