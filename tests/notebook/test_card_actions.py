"""What is clicked or typed in a card reaches the run."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from agentnb.notebook.card.actions import ACTIONS


@pytest.mark.parametrize(
    ("name", "message", "expected"),
    [
        ("answer", {"text": "yes", "key": "q2"}, ("answer_in_words", "yes", "q2")),
        ("choose", {"value": "[1]", "key": "q2"}, ("answer", [1], "q2")),
        ("decline", {"key": "q2"}, ("decline", "q2")),
    ],
)
def test_an_answer_is_for_the_question_it_was_typed_below(
    name: str, message: dict[str, Any], expected: tuple[Any, ...]
) -> None:
    calls: list[tuple[Any, ...]] = []

    def noting(method: str) -> Any:
        return lambda *given, **named: calls.append((method, *given, *named.values()))

    live = SimpleNamespace(**{method: noting(method) for method in ("answer", "answer_in_words", "decline")})
    ACTIONS[name](cast("Any", live), message)
    assert calls == [expected]
