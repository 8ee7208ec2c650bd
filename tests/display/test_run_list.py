"""The list of runs as buttons."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from agentnb.display.lists.history_list import run_list_html
from agentnb.display.texts.states import STATES
from agentnb.store.summaries import RunSummary

DONE = RunSummary(
    "20261121-1", datetime(2026, 11, 21, 12, tzinfo=UTC), "completed", "natural", 3, 1.0, "openai:m?x=1", "Count", 5, 0.01
)


def test_a_row_has_status_time_rounds_cost_model_and_prompt() -> None:
    html = run_list_html([DONE])
    for told in (
        'data-run="20261121-1"',
        ">•<",
        "Done, not checked",
        "21 Nov",
        "3 rounds · $0.0100 · openai:m<",
        ">Count<",
        'type="button"',
    ):
        assert told in html


def test_each_status_has_its_word_and_not_only_a_colour(subtests: pytest.Subtests) -> None:
    for status in sorted(STATES):
        with subtests.test(status=status):
            word = {"completed": "Done, not checked"}.get(status, STATES[status])
            assert f" {word}</b>" in run_list_html([DONE._replace(status=status, stop_reason="")])


def test_what_still_grows_is_not_told_as_if_it_stood_still() -> None:
    html = run_list_html([DONE._replace(status="running")])
    assert "Running" in html and "3 rounds" not in html and "$0.01" not in html


def test_prompts_and_models_are_words_and_no_markup() -> None:
    html = run_list_html([DONE._replace(prompt="<img src=x onerror=alert(1)>", model="<b>m</b>", id='x" onclick="y')])
    assert "<img" not in html and "<b>m" not in html and 'onclick="y' not in html


def test_an_empty_list_says_so() -> None:
    assert "No runs yet" in run_list_html([])
