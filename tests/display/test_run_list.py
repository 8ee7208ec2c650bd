"""The list of runs as buttons."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from msgspec.structs import replace

from agentnb.detect.run_states import STATES
from agentnb.display.lists.history_list import run_list_html
from agentnb.store.summaries import RunSummary

DONE = RunSummary(
    "20261121-1", datetime(2026, 11, 21, 12, tzinfo=UTC), "completed", "natural", 3, 1.0, "openai:m?x=1", "Count", 5, 0.01
)


def test_row_has_status_time_rounds_cost_model_and_prompt() -> None:
    html = run_list_html([DONE])
    for expected in (
        'data-run="20261121-1"',
        ">•<",
        "Done, not checked",
        "21 Nov",
        "3 rounds · $0.0100 · openai:m<",
        ">Count<",
        'type="button"',
    ):
        assert expected in html


def test_every_status_is_shown_in_words_besides_its_colour(subtests: pytest.Subtests) -> None:
    for status in sorted(STATES):
        with subtests.test(status=status):
            word = {"completed": "Done, not checked"}.get(status, STATES[status])
            assert f" {word}</b>" in run_list_html([replace(DONE, status=status, stop_reason="")])


def test_running_run_shows_no_final_numbers() -> None:
    html = run_list_html([replace(DONE, status="running")])
    assert "Running" in html and "3 rounds" not in html and "$0.01" not in html


def test_waiting_run_is_opened_rather_than_answered_by_command() -> None:
    waiting = replace(DONE, status="waiting_on_user", stop_reason="suspended", id="20261121-999fe28e9")
    html = run_list_html([waiting])
    assert "Waiting for you" in html and 'data-run="20261121-999fe28e9"' in html and "%agent" not in html


def test_prompts_and_models_never_become_markup() -> None:
    html = run_list_html([replace(DONE, prompt="<img src=x onerror=alert(1)>", model="<b>m</b>", id='x" onclick="y')])
    assert "<img" not in html and "<b>m" not in html and 'onclick="y' not in html


def test_empty_run_list_shows_a_message() -> None:
    assert "No runs yet" in run_list_html([])
