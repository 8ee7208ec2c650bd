"""An open question in the words and the text of a run."""

from __future__ import annotations

import pytest
from some_questions import asked, run_of

from agentnb.core.log import events as e
from agentnb.display.card.text import run_text
from agentnb.display.texts.question_labels import question_lines
from agentnb.display.texts.states import chip

PAUSE = (e.CommandReceived, {"command": "pause"})


@pytest.mark.req("R3.13")
def test_paused_run_differs_from_one_waiting_for_you() -> None:
    assert chip(run_of(PAUSE)) == "Paused"
    assert chip(run_of(asked())) == "Waiting for you"
    assert chip(run_of(asked(), PAUSE)) == "Waiting for you"


def test_several_questions_show_ids_and_a_command_for_the_first() -> None:
    lines = run_text(run_of(asked(), asked("When?", id="q2"))).splitlines()
    assert lines[-3:] == ["q1: It asks: Which?", "q2: It asks: When?", "Answer it: %agent answer r-1 q1 TEXT"]


@pytest.mark.req("KX.5")
def test_text_of_a_waiting_run_shows_question_and_answer_command() -> None:
    assert run_text(run_of(asked())).splitlines()[-2:] == ["It asks: Which?", "Answer it: %agent answer r-1 TEXT"]
    assert "asks" not in run_text(run_of(asked(), (e.QuestionAnswered, {"question_id": "q1", "answer": "this"})))


def test_possible_answers_follow_the_question(subtests: pytest.Subtests) -> None:
    for schema, told in [
        ({"enum": ["a", 1]}, " (a, 1)"),
        ({"type": "boolean"}, " (yes, no)"),
        ({"type": "integer"}, ""),
        ({"enum": "x"}, ""),
        ({"type": "object", "properties": {"by": {"type": "string"}, "top": {}}}, ' ({"by": ..., "top": ...})'),
        ({"type": "object", "properties": ["by"]}, ""),
    ]:
        with subtests.test(schema=schema):
            assert question_lines(run_of(asked(schema=schema))) == [f"It asks: Which?{told}"]


def test_question_text_cannot_control_the_terminal() -> None:
    (line,) = question_lines(run_of(asked("\x1b[2J?", {"enum": ["\x1b[0m"]})))
    assert "\x1b" not in line


def test_run_of_a_dead_process_shows_its_open_question() -> None:
    run = run_of(asked())
    run.mark_interrupted()
    assert chip(run) == "Interrupted"
    assert "It had asked: Which?" in run_text(run) and "%agent answer" not in run_text(run)
