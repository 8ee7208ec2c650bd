"""The view of a plan: each step, its question, and how it runs."""

from __future__ import annotations

import re
from typing import Any

import pytest
from asserted_sentences import Snapshot
from shown_words import words_in

from agentnb import Plan
from agentnb.display.defaults import MAX_STEPS
from agentnb.display.lists.plan_view import MAX_OF_WORDS, plan_html, plan_text
from agentnb.display.parts.step_list import FIRST

DAY = {"type": "object", "properties": {"day": {"type": "string"}, "feet": {"type": "boolean"}}}
PLANNER: dict[str, Any] = {
    "intention": "Compare two harbours",
    "elicitation": {"message": "For which day?", "requestedSchema": DAY},
    "steps": [
        {"type": "tool", "name": "tides.fetch", "args": {"station": "brest", "n": [1]}, "reason": "the first", "retries": 2},
        {"type": "tool", "name": "tables_compare", "args": {"left": "$step[0].output.rows"}},
        {"type": "noop", "reason": "all there"},
        {"type": "elicitation", "elicitation": {"message": "Also in feet?", "requestedSchema": DAY}},
        {"type": "clarify_intent", "content": "Which Brest?"},
        {"type": "abort", "content": "no tides"},
    ],
}
CHAT: dict[str, Any] = {
    "reasoning": "One needs the other.",
    "steps": [
        {"stepNumber": 1, "type": "research", "description": "Fetch it", "tools": ["a", "b"], "args": {"station": "x"}},
        {"stepNumber": 7, "type": "synthesis", "description": "Say it", "executorRequired": True, "dependsOn": [1]},
    ],
}


def test_plans_in_either_format_are_shown_as_text(snapshot: Snapshot, subtests: pytest.Subtests) -> None:
    for name, plan in {"planner": PLANNER, "chat": CHAT, "no steps": {"steps": []}}.items():
        with subtests.test(name):
            assert plan_text(Plan.read(plan), "mine") == snapshot


def test_plan_html_has_the_content_of_the_text(subtests: pytest.Subtests) -> None:
    for plan in (PLANNER, CHAT):
        html = words_in(plan_html(Plan.read(plan), "mine"))
        for line in plan_text(Plan.read(plan), "mine").splitlines():
            with subtests.test(line):
                assert " ".join(re.sub(r"^  (\d+ \w+)\((.*)\)", r"\1 \2 ", line).replace("·", "").split()) in html


def test_plan_text_cannot_inject_markup() -> None:
    hostile = "<script>\x1b[2J\u202e</script>\n# x"
    steps = [{"type": "tool", "name": "f", "args": {hostile: hostile}, "reason": hostile}, {"type": hostile, "name": hostile}]
    plan = Plan.read({"intention": hostile, "steps": steps, "elicitation": {"message": hostile, "requestedSchema": {}}})
    for shown in (plan_html(plan), plan_text(plan)):
        assert "\x1b" not in shown and "\u202e" not in shown
    assert "<script" not in plan_html(plan) and len(plan_text(plan).splitlines()) == 6


def test_known_keys_are_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test-0123456789abcdef")
    plan = {"steps": [{"type": "tool", "name": "f", "args": {"key": "sk-test-0123456789abcdef"}}]}
    for shown in (plan_html(Plan.read(plan)), plan_text(Plan.read(plan))):
        assert "0123456789abcdef" not in shown and "key=" in shown


def test_long_plans_are_truncated_with_a_count() -> None:
    last = MAX_STEPS
    plan = Plan.read({"steps": [{"type": "tool", "name": f"tool_{n}", "args": {"a": "x" * 1_000}} for n in range(last + 1)]})
    for shown in (words_in(plan_html(plan)), plan_text(plan)):
        assert f"tool_{FIRST - 1}" in shown and f"tool_{FIRST}" not in shown and f"tool_{last}" in shown
        assert "… 1 step" in shown and "pending" not in shown
    assert max(map(len, plan_text(plan).splitlines())) < 2 * MAX_OF_WORDS
    assert "tool_4, ...]" in plan_text(plan)
