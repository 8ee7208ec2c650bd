"""Pairwise preferences: judged in both orders; only agreeing answers choose."""

from __future__ import annotations

import asyncio
from pathlib import Path
from statistics import fmean

import pytest
from judges import judge_by, sent, verdict
from run_builder import RunBuilder
from small_experiments import small, was_called

from agentnb import compare
from agentnb.core.log import events as e
from agentnb.detect.run import Run


def run_that_says(text: str, prompt: str = "Which city?") -> Run:
    return RunBuilder(prompt).round(text).add(e.RunFinished, status="completed", stop_reason="natural").run


def side_of(text: str, word: str) -> str:
    """Return the side of a word, as a judge of pairs names it."""
    return "run_1" if word in text.partition("</run_1>")[0] else "run_2"


def test_preference_counts_only_if_it_survives_swapping_sides(subtests: pytest.Subtests) -> None:
    cases = {
        "by content": (lambda text: side_of(text, "Paris"), "a"),
        "by content, the other": (lambda text: side_of(text, "Rome"), "b"),
        "always the first": (lambda text: "run_1", "tie"),
        "always the second": (lambda text: "run_2", "tie"),
        "a tie once": (lambda text: "tie" if side_of(text, "Rome") == "run_2" else "run_1", "tie"),
        "unknown once": (lambda text: "unknown" if side_of(text, "Rome") == "run_2" else "run_1", None),
        "no word of the schema": (lambda text: "a", None),
    }
    for name, (answer, expected) in cases.items():
        with subtests.test(name):
            judge, model = judge_by(lambda text, answer=answer: verdict(answer(text)))
            assert asyncio.run(judge.choose(run_that_says("Paris."), run_that_says("Rome."))) == expected
            texts = {sent(request): None for request in model.requests}
            first, second = texts
            assert side_of(first, "Paris") == "run_1" and side_of(second, "Paris") == "run_2"


def test_equal_runs_tie_without_a_call_and_prompts_stay_hidden() -> None:
    judge, model = judge_by(lambda text: verdict("run_1"))
    assert asyncio.run(judge.choose(run_that_says("Rome."), run_that_says("Rome."))) == "tie" and not model.requests
    asyncio.run(judge.choose(run_that_says("Rome."), run_that_says("Paris.", "Think. Which city?")))
    assert "Think" not in sent(model.requests[0]) and "city" not in sent(model.requests[0])


def test_preferences_are_paired_by_task_and_requested_once(tmp_path: Path) -> None:
    judge, model = judge_by(
        lambda text: verdict("tie" if text.count('"tool": "check_line"') != 1 else side_of(text, '"tool": "check_line"'))
    )
    results = small(12, folder=tmp_path / "exp").run_sync(show=False)
    comparison = compare(results, "matrix", "off")
    found = asyncio.run(judge.prefer(comparison))
    values = {(row.variant, row.task): row.values["was_called"] for row in results.rows}
    expected = [values["matrix", f"t{n}"] - values["off", f"t{n}"] for n in range(12)]
    assert found.analysis.value == pytest.approx(fmean(expected)) and found.analysis.value == pytest.approx(
        comparison.difference
    )
    assert found.analysis.interval == pytest.approx(comparison.interval)
    assert (
        found.counts["a"] == expected.count(1) and found.counts["b"] == expected.count(-1) and sum(found.counts.values()) == 12
    )
    assert len(found.table) == 12 and "p = " in repr(found)
    count = len(model.requests)
    assert asyncio.run(judge.prefer(compare(results, "matrix", "off"))).analysis == found.analysis
    assert len(model.requests) == count > 0 and was_called.__name__ == comparison.primary
