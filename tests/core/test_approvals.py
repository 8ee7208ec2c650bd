"""The answers to the question whether a call may run, typed or given as values, and what they decide."""

from __future__ import annotations

from typing import Any

import pytest

from agentnb.core.questions import AnswerForm, answer_form, answer_in_words, checked_answer
from agentnb.core.run.approvals import Decision, approval_schema, decision
from agentnb.errors import SettingsError

SCHEMA = approval_schema(("always",))
YES, NO = Decision(True), Decision(False)


@pytest.mark.req("KX.5")
def test_an_answer_approves_denies_says_why_or_gives_other_arguments(subtests: pytest.Subtests) -> None:
    answers: list[tuple[Any, Decision]] = [
        ("approve", YES),
        ("always", YES),
        (True, YES),
        ("deny", NO),
        (False, NO),
        ("deny: not that file", Decision(False, "not that file")),
        ({"deny": "not that file"}, Decision(False, "not that file")),
        ({"edit": {"path": "b"}}, Decision(True, "", {"path": "b"})),
        ({"edit": {}}, Decision(True, "", {})),
    ]
    for answer, expected in answers:
        with subtests.test(str(answer)):
            assert decision(checked_answer(SCHEMA, answer)) == expected


def test_it_can_be_typed(subtests: pytest.Subtests) -> None:
    typed = {
        "Approve": YES,
        "yes": YES,
        "no": NO,
        " Deny ": NO,
        "No, use the other one": Decision(False, "use the other one"),
        '{"edit": {"n": 2}}': Decision(True, "", {"n": 2}),
    }
    for text, expected in typed.items():
        with subtests.test(text):
            assert decision(answer_in_words(SCHEMA, text)) == expected


def test_what_is_unclear_is_no_answer(subtests: pytest.Subtests) -> None:
    for answer in (
        "",
        "sure",
        "deny:",
        "approve it",
        1,
        None,
        [],
        {},
        {"edit": "x"},
        {"edit": {}, "deny": "x"},
        {"deny": True},
    ):
        with subtests.test(str(answer)), pytest.raises(SettingsError):
            checked_answer(SCHEMA, answer)


def test_the_choices_are_buttons_and_other_forms_are_possible_besides() -> None:
    assert answer_form(SCHEMA) == AnswerForm("choice", ["approve", "always", "deny"], has_others=True)
    assert answer_form({"anyOf": [{"type": "string"}, True]}) == AnswerForm("text")
