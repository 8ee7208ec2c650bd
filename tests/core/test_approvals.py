"""Answers to an approval question, typed or as values, and their decisions."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from agentnb.core.questions import (
    REACHES,
    AnswerForm,
    GrantOffer,
    JudgedCall,
    WaitingOnUser,
    answer_form,
    answer_in_words,
    check_answer,
)
from agentnb.core.run.approvals import Decision, approval_schema, check_answer_to, decision, edit_schema, given_grant
from agentnb.errors import SettingsError

SCHEMA = approval_schema(("always",))
YES, NO = Decision(True), Decision(False)


@pytest.mark.req("KX.5")
def test_answer_approves_denies_gives_a_reason_or_edits_arguments(subtests: pytest.Subtests) -> None:
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
            assert decision(check_answer(SCHEMA, answer)) == expected


def test_approval_answer_can_be_typed(subtests: pytest.Subtests) -> None:
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


def test_unclear_text_is_not_an_answer(subtests: pytest.Subtests) -> None:
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
            check_answer(SCHEMA, answer)


def test_choices_become_buttons_and_other_answers_are_accepted() -> None:
    assert answer_form(SCHEMA) == AnswerForm("choice", ["approve", "always", "deny"], has_others=True)
    assert answer_form({"anyOf": [{"type": "string"}, True]}) == AnswerForm("text")


FILE = {
    "type": "object",
    "properties": {"path": {"type": "string"}, "modes": {"type": "array", "items": {"$ref": "#/$defs/mode"}}},
    "required": ["path"],
    "additionalProperties": False,
    "$defs": {"mode": {"enum": ["r", "w"]}},
}
GRANTS = (GrantOffer("bash"), GrantOffer("bash(git *)"), GrantOffer("bash(git *)", "session"))


def test_refused_answer_explains_the_reason(subtests: pytest.Subtests) -> None:
    schema = approval_schema((), FILE, GRANTS)
    cases: list[tuple[Any, str]] = [
        ({"edit": {"path": 3}}, 'Please correct edit.path: 3 is not of type "string"'),
        ({"edit": {}}, 'Please correct edit: "path" is missing'),
        ({"edit": {"path": "a", "modes": ["x"]}}, 'Please correct edit.modes.0: "x" is not one of "r", "w"'),
        ({"edit": "x"}, 'Please correct edit: "x" is not of type "object"'),
        ({"always": "rm(*)", "reach": "run"}, "Please enter bash or bash(git *) (you entered 'rm(*)')"),
        ({"always": "bash", "reach": "week"}, 'Please correct reach: "week" is not one of "run", "session"'),
        ({"other": 1}, "Please choose one of: approve, deny"),
    ]
    for answer, expected in cases:
        with subtests.test(str(answer)):
            with pytest.raises(SettingsError, match=re.escape(expected)):
                check_answer(schema, answer)
            with pytest.raises(SettingsError, match=re.escape(expected)):
                answer_in_words(schema, json.dumps(answer))


def test_schema_of_arguments_keeps_its_definitions(subtests: pytest.Subtests) -> None:
    schema = approval_schema((), FILE)
    assert edit_schema(schema) == FILE
    assert check_answer(schema, {"edit": {"path": "a", "modes": ["r"]}})
    for reference in ("#", "#/properties/path", "other.json", 3):
        with subtests.test(str(reference)):
            ring = {"type": "object", "properties": {"path": {"type": "string"}, "a": {"$ref": reference}}}
            assert edit_schema(approval_schema((), ring)) == {"type": "object"}
    for odd in (
        {"type": "string"},
        {"anyOf": [3, {"required": ["edit"]}, {"required": ["edit"], "properties": {"edit": True}}]},
    ):
        assert edit_schema(odd) == {"type": "object"}


@pytest.mark.parametrize("answer", ["always in {reach}: {rule}", {"always": "{rule}", "reach": "{reach}"}])
@pytest.mark.parametrize(
    ("rule", "reach", "may"),
    [
        ("bash(*)", "run", False),
        ("bash( ** )", "session", False),
        ("bash", "session", False),
        ("bash", "project", False),
        ("bash(/**)", "project", False),
        ("bash(git log)", "project", True),
        ("bash(git *)", "session", True),
        ("bash(git *)", "run", True),
        ("bash", "run", True),
        ("bash(say [key])", "project", False),
        ("bash(say [key])", "run", True),
        ("bash(git\u202e *)", "project", False),
        ("bash(git\u3164 *)", "project", False),
        ("bash(git\u2800 *)", "project", False),
        ("bash(git\u115f *)", "project", False),
        ("bash(git\u034f *)", "project", False),
        ("bash(git\ufe0f *)", "project", False),
        ("bash(git\ufe0f *)", "run", True),
        (f"bash(say {'x' * 1_000})", "project", False),
        (f"bash(say {'x' * 900})", "project", True),
        ("bash(https://*/**)", "project", False),
        ("bash(http://*:80)", "session", False),
        ("bash(https://*.org/**)", "project", True),
    ],
)
def test_pattern_that_matches_every_call_is_refused(answer: Any, rule: str, reach: Any, may: bool) -> None:
    grants = (*[GrantOffer("bash(ls *)", each) for each in REACHES], GrantOffer("bash"))
    question = WaitingOnUser(
        "approval", "May it?", approval_schema((), None, grants), "q1", "c1", JudgedCall("bash", "{}", "ask", grants=grants)
    )
    filled = {"always": rule, "reach": reach} if isinstance(answer, dict) else answer.format(rule=rule, reach=reach)
    if may:
        assert check_answer_to(question, filled) == filled and given_grant(question, filled) == GrantOffer(rule, reach)
        return
    with pytest.raises(SettingsError, match=r"would allow every call|is not saved"):
        check_answer_to(question, filled)
