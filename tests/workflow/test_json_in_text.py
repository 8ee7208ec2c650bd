"""JSON in an answer of a model."""

from __future__ import annotations

from typing import Any

import pytest

from agentnb.workflow.templates.json_in_text import MAX_TRIED, json_values


def test_json_objects_and_lists_in_text_are_found_exactly_once(subtests: pytest.Subtests) -> None:
    cases: dict[str, list[Any]] = {
        '{"ok": {"sure": [1]}}': [{"ok": {"sure": [1]}}],
        'Is {"ok": {"sure": [1]}} or [2, [3]]?': [{"ok": {"sure": [1]}}, [2, [3]]],
        "3": [],
        '"{}"': [],
        '{"score": NaN}': [],
        'Score: {"score": -Infinity}': [],
        f"{'[' * 200}{']' * 200}": [],
        f"Deep: {'[' * 200}{']' * 200}": [],
        f'{"{" * (MAX_TRIED - 1)} {{"ok": 1}}': [{"ok": 1}],
        f'{"{" * MAX_TRIED} {{"ok": 1}}': [],
    }
    for text, values in cases.items():
        with subtests.test(text[:40]):
            assert json_values(text) == values
