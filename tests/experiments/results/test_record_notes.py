"""Notes of results and comparisons: what the record says of how the experiment was run and read."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from made_results import results_from, results_of, row

from agentnb import compare
from agentnb.experiments.results.folder import Plan

ARMS = {"a": [1] * 8, "b": [0, 1] * 4, "c": [0] * 8}


def frozen(primary: str, arms: dict[str, Any]) -> Any:
    return replace(results_of(arms), plan=Plan("c0ac", "hash", {"primary": primary}))


def test_primary_that_was_not_frozen_is_a_note_of_its_comparison(subtests: pytest.Subtests) -> None:
    two = {name: ARMS[name] for name in ("a", "b")}
    for primary, notes in {"rounds": ("the primary was frozen as called, and rounds was chosen later",), "called": ()}.items():
        with subtests.test(primary):
            assert compare(frozen("called", two), "a", "b", primary=primary).notes == notes


def test_single_comparison_of_several_is_a_note_and_holm_needs_none() -> None:
    results = frozen("called", ARMS)
    told = "one of 3 comparisons of these 3 variants, with a p value for one alone; compare(results) adjusts them by Holm"
    assert compare(results, "a", "b").notes == (told,)
    assert [(one.notes, one.p_adjusted is None) for one in compare(results)] == [((), False)] * 2


def test_runs_that_asked_in_vain_or_reached_a_limit_are_notes_by_variant_once_open() -> None:
    limited = {"status": "limited", "values": {}}
    rows = [
        row("a", "t0", True, unanswered=2),
        row("a", "t1", True, unanswered=1, stop_reason="max_rounds", **limited),
        row("b", "t0", True, stop_reason="max_rounds", **limited),
        row("b", "t1", True, stop_reason="max_seconds", **limited),
    ]
    assert results_from(rows).notes == (
        "nobody answered the questions of 2 runs (a 2, b 0)",
        "3 runs reached a limit: max_rounds 2, max_seconds 1 (a 1, b 2)",
    )
    covered = results_from(rows, missing=1, is_covered=True)
    assert covered.notes == (
        "1 runs are missing",
        "nobody answered the questions of 2 runs",
        "3 runs reached a limit: max_rounds 2, max_seconds 1",
    )
    assert "(a " not in repr(covered)
