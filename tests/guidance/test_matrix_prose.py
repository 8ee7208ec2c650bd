"""What the built-in set says: the headings and keywords of the requirements, in words of our own."""

from __future__ import annotations

from importlib.resources import files

import pytest
from ephemeral_text import MATRIX
from run_builder import todos_of
from scripted_runs import tool_run

from agentnb.detect.guidance_rules import CELLS
from agentnb.guidance.parts import LEVELS, PARTS
from agentnb.guidance.template import render

SAID = {name: render(text, tool_run(todos=todos_of("completed", "in-progress"))) for name, text in MATRIX.parts.items()}
HEADINGS = {
    "todos_tools": "WORKFLOW GUIDANCE (TODO MODE):",
    "todos_text": "CRITICAL WORKFLOW GUIDANCE (TODO MODE):",
    "tools": "WORKFLOW GUIDANCE:",
    "text": "CRITICAL WORKFLOW GUIDANCE:",
    "reminder": "REMINDER:",
    "warning": "WARNING:",
    "final_warning": "FINAL WARNING:",
    "tool_failed": "TOOL FAILED:",
    "failure_loop": "FAILURE LOOP:",
}


def holds(part: str, *words: str) -> bool:
    """Whether these stand in it, in this order."""
    text, place = SAID[part].lower(), 0
    for word in words:
        place = text.find(word.lower(), place)
        if place < 0:
            return False
        place += len(word)
    return True


@pytest.mark.req("R0.15", "R0.16", "R0.17", "R0.18", "R0.47", "K0.11")
def test_each_cell_and_level_begins_with_its_heading(subtests: pytest.Subtests) -> None:
    for part, heading in HEADINGS.items():
        with subtests.test(part=part):
            assert SAID[part].startswith(heading)


@pytest.mark.req("R0.15")
def test_open_todos_after_tools_ask_for_both_marks_around_the_work() -> None:
    assert holds("todos_tools", "before the work", "in-progress", "todo_operations", "do the work", "after", "completed")
    assert holds("todos_tools", "never leave out either mark")
    assert holds("todos_tools", "never", "several text-only replies", "tool call between")


@pytest.mark.req("R0.16")
def test_open_todos_after_words_ask_for_the_three_steps_now() -> None:
    assert holds("todos_text", "only if you have just answered")
    assert holds("todos_text", "in-progress", "todo_operations", "do the work", "completed", "todo_operations")
    assert holds("todos_text", "while todos remain", "text-only reply", "not acceptable")


@pytest.mark.req("R0.17")
def test_after_tools_the_model_is_to_look_on_answer_or_go_on() -> None:
    assert holds("tools", "more data", "call the tools", "enough", "answer", "answered already", "tools", "do not repeat")
    assert holds("tools", "several text-only replies", "tool call between")


@pytest.mark.req("R0.18")
def test_after_words_the_model_is_to_use_tools_unless_it_answers() -> None:
    assert holds("text", "answered already", "use tools")
    assert holds("text", "work to do", "must use tools")
    assert holds("text", "text-only reply", "only when it answers")


@pytest.mark.req("R0.47", "K0.10")
def test_the_levels_grow_from_a_reminder_to_the_last_chance() -> None:
    assert holds("reminder", "incomplete todos", "next", "completed")
    assert holds("warning", "in a loop", "break", "now")
    assert holds("final_warning", "last chance", "the workflow will fail")


@pytest.mark.req("R0.51")
@pytest.mark.parametrize("level", LEVELS)
def test_each_level_names_the_todo_and_the_call_that_closes_it(level: str) -> None:
    assert 'todo 2, "Write story 2"' in SAID[level]
    assert 'todo_operations {"operation": "update", "todoUpdates": [{"id": 2, "status": "completed"}]}' in SAID[level]


@pytest.mark.req("R0.37", "K0.7")
def test_workflow_mode_says_how_it_ends() -> None:
    assert holds("workflow", "workflow mode", "complete", "[WORKFLOW_COMPLETE]")


@pytest.mark.req("R0.81")
def test_a_repeated_answer_is_told_so() -> None:
    assert holds("already_said", "you already said this", "do not say it again")


@pytest.mark.req("R0.75")
def test_failures_are_told_with_the_tool_and_the_ways_on_of_which_one_is_to_stop() -> None:
    assert holds(
        "tool_failed", "(no tool failed)", "what went wrong", "adapt", "never with the same", "another tool", "stop", "why"
    )
    assert holds("tool_failed_again", "(no tool failed) failed again", "stop and say why")
    assert len(SAID["tool_failed_again"]) < len(SAID["tool_failed"]) / 3
    assert holds("failure_loop", "(no tool failed)", "in 0 rounds in a row", "break the loop", "another tool", "stop")


@pytest.mark.req("R0.24")
def test_the_note_holds_the_round_and_the_limit() -> None:
    assert SAID["note"] == "Round 1 of 9."


@pytest.mark.req("R0.79")
def test_stronger_words_say_how_often_guidance_was_not_followed() -> None:
    assert "{{ ignored }}" in MATRIX.parts["stronger"]
    assert "{{ ignored }}" in MATRIX.parts["strongest"]
    assert MATRIX.parts["stronger"] != MATRIX.parts["strongest"]


@pytest.mark.req("R0.14")
def test_no_two_parts_say_the_same() -> None:
    assert len(set(SAID.values())) == len(PARTS)


def test_every_part_is_a_markdown_file_and_every_file_a_part() -> None:
    folder = files("agentnb.guidance.prompts").joinpath("matrix")
    stored = {file.name.removesuffix(".md"): file.read_text(encoding="utf-8").strip() for file in folder.iterdir()}
    assert stored == dict(MATRIX.parts)
    assert set(CELLS) <= set(stored)
