"""Clicks and typed text in a card reach the run."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from agentnb.core.questions import JudgedCall, WaitingOnUser
from agentnb.core.run.approvals import approval_schema
from agentnb.notebook.card.actions import ACTIONS
from agentnb.runtime.questions.question_forms import FieldsRefused


@pytest.mark.parametrize(
    ("name", "message", "expected"),
    [
        ("answer", {"text": "yes", "key": "q2"}, ("answer_in_words", "yes", "q2")),
        ("choose", {"value": "[1]", "key": "q2"}, ("answer", [1], "q2")),
        ("always", {"rule": "a(b)", "reach": "run", "key": "q2"}, ("answer", {"always": "a(b)", "reach": "run"}, "q2")),
        ("reject", {"text": " not now ", "key": "q2"}, ("answer", {"deny": "not now"}, "q2")),
        ("reject", {"text": " ", "key": "q2"}, ("answer", "deny", "q2")),
        ("decline", {"key": "q2"}, ("decline", "q2")),
    ],
)
def test_answer_belongs_to_the_question_it_was_typed_below(
    name: str, message: dict[str, Any], expected: tuple[Any, ...]
) -> None:
    calls: list[tuple[Any, ...]] = []

    def noting(method: str) -> Any:
        return lambda *given, **named: calls.append((method, *given, *named.values()))

    methods = {method: noting(method) for method in ("answer", "answer_in_words", "decline")}
    live = SimpleNamespace(run=SimpleNamespace(waiting=()), **methods)
    ACTIONS[name](cast("Any", live), message)
    assert calls == [expected]


FORM = {"type": "object", "properties": {"n": {"type": "integer"}, "a": {"type": "string"}}, "required": ["n"]}


def live_with(question: WaitingOnUser) -> tuple[Any, list[Any]]:
    """Return a run that waits for this answer, and the answers it received."""
    answers: list[Any] = []
    run = SimpleNamespace(waiting=[question])
    return SimpleNamespace(run=run, answer=lambda value, key: answers.append((value, key))), answers


def test_form_returns_the_answer_or_shows_field_errors() -> None:
    live, answers = live_with(WaitingOnUser("elicitation", "Which?", FORM, "q1"))
    ACTIONS["form"](live, {"key": "q1", "fields": [["0", "7"]]})
    with pytest.raises(FieldsRefused) as refused:
        ACTIONS["form"](live, {"key": "q1", "fields": [["0", "x"]]})
    assert refused.value.problems == {"0": "Enter a whole number"} and answers == [({"n": 7}, "q1")]


def test_edit_form_changes_arguments_and_is_drawn_on_opening() -> None:
    about = JudgedCall("count", '{"n": 1, "b": [2]}', "ask")
    live, answers = live_with(WaitingOnUser("approval", "May it?", approval_schema((), FORM), "a/q1", "c1", about))
    drawn = ACTIONS["edit_form"](live, {"key": "edit_form:a/q1"})
    assert 'value="1"' in str(drawn) and "Other properties, as JSON" in str(drawn)
    ACTIONS["form"](live, {"key": "a/q1", "fields": [["1", "x"]]})
    assert answers == [({"edit": {"n": 1, "a": "x", "b": [2]}}, "a/q1")]
    assert ACTIONS["edit_form"](live, {"key": "edit_form:q7"}) == ""
