"""Texts of the built-in set: required headings and keywords."""

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
    """True if the part has these phrases in this order."""
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
def test_todos_tools_cell_asks_for_both_todo_updates() -> None:
    assert holds("todos_tools", "before the work", "in-progress", "todo_operations", "do the work", "after", "completed")
    assert holds("todos_tools", "never leave out either mark")
    assert holds("todos_tools", "never", "several text-only replies", "tool call between")


@pytest.mark.req("R0.16")
def test_todos_text_cell_asks_for_the_three_steps() -> None:
    assert holds("todos_text", "only if you have just answered")
    assert holds("todos_text", "in-progress", "todo_operations", "do the work", "completed", "todo_operations")
    assert holds("todos_text", "while todos remain", "text-only reply", "not acceptable")


@pytest.mark.req("R0.17")
def test_tools_cell_asks_to_check_answer_or_continue() -> None:
    assert holds("tools", "more data", "call the tools", "enough", "answer", "answered already", "tools", "do not repeat")
    assert holds("tools", "several text-only replies", "tool call between")


@pytest.mark.req("R0.18")
def test_text_cell_asks_to_use_tools_or_answer() -> None:
    assert holds("text", "answered already", "use tools")
    assert holds("text", "work to do", "must use tools")
    assert holds("text", "text-only reply", "only when it answers")


@pytest.mark.req("R0.47", "K0.10")
def test_levels_escalate_from_a_reminder_to_the_last_chance() -> None:
    assert holds("reminder", "incomplete todos", "next", "completed")
    assert holds("warning", "in a loop", "break", "now")
    assert holds("final_warning", "last chance", "the workflow will fail")


@pytest.mark.req("R0.51")
@pytest.mark.parametrize("level", LEVELS)
def test_each_level_names_the_todo_and_its_closing_call(level: str) -> None:
    assert 'todo 2, "Write story 2"' in SAID[level]
    assert 'todo_operations {"operation": "update", "todoUpdates": [{"id": 2, "status": "completed"}]}' in SAID[level]


@pytest.mark.req("R0.37", "K0.7")
def test_workflow_text_explains_how_to_end() -> None:
    assert holds("workflow", "workflow mode", "complete", "[WORKFLOW_COMPLETE]")


@pytest.mark.req("R0.81")
def test_repeated_answer_text_mentions_the_repetition() -> None:
    assert holds("already_said", "you already said this", "do not say it again")


@pytest.mark.req("R0.75")
def test_failure_text_names_the_tool_and_allows_stopping() -> None:
    assert holds(
        "tool_failed", "(no tool failed)", "what went wrong", "adapt", "never with the same", "another tool", "stop", "why"
    )
    assert holds("tool_failed_again", "(no tool failed) failed again", "stop and say why")
    assert len(SAID["tool_failed_again"]) < len(SAID["tool_failed"]) / 3
    assert holds("failure_loop", "(no tool failed)", "in 0 rounds in a row", "break the loop", "another tool", "stop")


@pytest.mark.req("R0.24")
def test_note_shows_the_round_and_the_limit() -> None:
    assert SAID["note"] == "Round 1 of 9."


@pytest.mark.req("R0.79")
def test_stronger_text_states_how_often_guidance_was_ignored() -> None:
    assert "{{ ignored }}" in MATRIX.parts["stronger"]
    assert "{{ ignored }}" in MATRIX.parts["strongest"]
    assert MATRIX.parts["stronger"] != MATRIX.parts["strongest"]


@pytest.mark.req("R0.14")
def test_all_parts_have_different_texts() -> None:
    assert len(set(SAID.values())) == len(PARTS)


def test_parts_and_markdown_files_correspond() -> None:
    folder = files("agentnb.guidance.prompts").joinpath("matrix")
    stored = {file.name.removesuffix(".md"): file.read_text(encoding="utf-8").strip() for file in folder.iterdir()}
    assert stored == dict(MATRIX.parts)
    assert set(CELLS) <= set(stored)
