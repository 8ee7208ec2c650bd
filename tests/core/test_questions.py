"""Questions to the person: kinds, valid answers, and the state of a waiting run."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from asserted_sentences import Snapshot
from hypothesis import given
from hypothesis import strategies as st
from run_builder import Story
from some_events import json_values

from agentnb.core.inbox import Command, Inbox
from agentnb.core.log import events as e
from agentnb.core.log.wire import decode, decode_lines, encode
from agentnb.core.messages import Text, ToolCall, ToolResult
from agentnb.core.questions import (
    KINDS,
    TEXT,
    Answer,
    AnswerForm,
    WaitingOnUser,
    answer_form,
    answer_in_words,
    check_answer,
    check_answer_schema,
)
from agentnb.detect.run import Run
from agentnb.errors import SettingsError

CALL = ToolCall("ask", {}, "c1")
COLOUR = WaitingOnUser("elicitation", "Which colour?", {"enum": ["red", "blue"]}, "q1", "c1")
PLAN = WaitingOnUser("plan_review", "Is this plan good?", {"type": "boolean"}, "q2", "c1")
ADDRESS = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"], "additionalProperties": False}


def asking(*questions: WaitingOnUser) -> Story:
    story = Story().begun().replied(CALL).add(e.ToolStarted, call=CALL)
    for question in questions:
        story.add(e.QuestionAsked, question=question)
    return story


def state(story: Story) -> tuple[str, list[str]]:
    run = Run.from_events(story.events)
    return run.status, [question.id for question in run.waiting]


# The pause


@pytest.mark.req("KX.5")
def test_there_are_four_kinds_of_questions() -> None:
    assert KINDS == ("approval", "elicitation", "plan_review", "human_step")


@pytest.mark.req("KX.5")
def test_every_kind_of_question_survives_its_log_line(subtests: pytest.Subtests) -> None:
    for kind in KINDS:
        with subtests.test(kind=kind):
            question = WaitingOnUser(kind, "Grüße?", ADDRESS, "q1", "c1")
            event = asking(question).events[-1]
            assert decode(encode(event)).question == question  # type: ignore[union-attr]
            with pytest.raises(AttributeError):
                question.message = "Other?"  # type: ignore[misc]


@pytest.mark.req("KX.5", "R3.13")
def test_run_waits_while_a_question_is_open() -> None:
    story = asking()
    assert state(story) == ("running", [])
    assert state(story.add(e.QuestionAsked, question=COLOUR)) == ("waiting_on_user", ["q1"])
    assert state(story.add(e.QuestionAsked, question=PLAN)) == ("waiting_on_user", ["q1", "q2"])
    assert state(story.add(e.QuestionAnswered, question_id="q1", answer="red")) == ("waiting_on_user", ["q2"])
    assert state(story.add(e.QuestionAnswered, question_id="q2", declined=True)) == ("running", [])


@pytest.mark.req("R3.13")
def test_paused_run_waits_until_it_is_resumed() -> None:
    story = asking(COLOUR).add(e.CommandReceived, command="pause").add(e.QuestionAnswered, question_id="q1", answer="red")
    assert state(story) == ("waiting_on_user", [])
    assert state(story.add(e.CommandReceived, command="resume")) == ("running", [])


@pytest.mark.req("R3.13")
def test_resuming_does_not_answer_a_question() -> None:
    story = asking(COLOUR).add(e.CommandReceived, command="pause").add(e.CommandReceived, command="resume")
    assert state(story) == ("waiting_on_user", ["q1"])


def test_withdrawn_question_is_closed() -> None:
    assert state(asking(COLOUR).add(e.QuestionAnswered, question_id="q1", withdrawn=True)) == ("running", [])


@pytest.mark.req("KX.5")
def test_run_of_a_dead_process_keeps_its_open_questions() -> None:
    log = b"".join(map(encode, asking(COLOUR, PLAN).events))
    run = Run.from_events(decode_lines(log.splitlines(keepends=True), "a log"))
    run.mark_interrupted()
    assert (run.status, run.waiting) == ("interrupted", (COLOUR, PLAN))


def test_ended_run_has_no_open_question() -> None:
    assert state(asking(COLOUR).over("cancelled", "cancelled")) == ("cancelled", [])


def test_each_question_is_kept_with_its_outcome(subtests: pytest.Subtests) -> None:
    cases: dict[str, tuple[dict[str, Any], tuple[str, Any]]] = {
        "answered": ({"answer": "red"}, ("answered", "red")),
        "answered with nothing": ({"answer": None}, ("answered", None)),
        "declined": ({"declined": True}, ("declined", None)),
        "cancelled": ({"declined": True, "cancelled": True}, ("cancelled", None)),
        "withdrawn": ({"withdrawn": True}, ("withdrawn", None)),
    }
    for name, (fields, expected) in cases.items():
        with subtests.test(name):
            events = asking(COLOUR, PLAN).add(e.QuestionAnswered, question_id="q1", **fields).events
            first, second = Run.from_events(events).questions
            assert (first.outcome, first.answer) == expected and first.question == COLOUR
            assert (first.asked_at, first.closed_at, first.round) == (events[-3].at, events[-1].at, 0)
            assert first.seconds == (events[-1].at - events[-3].at).total_seconds()
            assert (second.outcome, second.closed_at, second.seconds, second.question) == ("open", None, None, PLAN)


def test_unanswerable_question_is_withdrawn(subtests: pytest.Subtests) -> None:
    ended = asking(COLOUR).over("cancelled", "cancelled")
    for name, story, when in [
        ("the run ended", ended, ended.events[-1].at),
        ("resumed by another process", asking(COLOUR).add(e.RunRecovered, schema=e.SCHEMA), None),
    ]:
        with subtests.test(name):
            (question,) = Run.from_events(story.events).questions
            assert (question.outcome, question.closed_at) == ("withdrawn", when)


def test_second_answer_is_ignored() -> None:
    story = asking(COLOUR).add(e.QuestionAnswered, question_id="q1", answer="red")
    story.add(e.QuestionAnswered, question_id="q1", answer="blue").add(e.QuestionAnswered, question_id="q9", answer="blue")
    assert [record.answer for record in Run.from_events(story.events).questions] == ["red"]


def test_questions_of_a_round_are_listed() -> None:
    story = asking(COLOUR, PLAN).add(e.ToolFinished, result=ToolResult("c1", "ask")).ended().begun().replied(CALL)
    story.add(e.QuestionAsked, question=WaitingOnUser("approval", "May I?", TEXT, "q3"))
    run = Run.from_events(story.events)
    assert [[record.question.id for record in run.questions_of(index)] for index in range(3)] == [["q1", "q2"], ["q3"], []]


def test_answer_wakes_listeners_without_entering_the_inbox() -> None:
    inbox, heard = Inbox(), []
    inbox.on_put(heard.append)
    inbox.put("answer", answer=Answer("q1", "red"))
    assert heard == [Command("answer", "", Answer("q1", "red"))]
    assert not inbox.has_news and inbox.take() is None


# Answers


def test_valid_answer_is_accepted_unchanged(subtests: pytest.Subtests) -> None:
    cases = [
        (TEXT, "anything"),
        (TEXT, ""),
        ({"enum": ["red", "blue"]}, "blue"),
        ({"type": "boolean"}, False),
        ({"type": "integer", "minimum": 1}, 3),
        (ADDRESS, {"city": "Köln"}),
        ({}, None),
    ]
    for schema, value in cases:
        with subtests.test(schema=schema, value=value):
            assert check_answer(schema, value) == value


@pytest.mark.req("KX.5")
def test_invalid_answer_is_refused_with_the_valid_ones(subtests: pytest.Subtests) -> None:
    cases = [
        (TEXT, 3, "Please enter text (you entered 3)"),
        ({"enum": ["red", 1]}, "green", "Please choose one of: red, 1 (you entered 'green')"),
        ({"type": "boolean"}, "red", "Please choose one of: yes, no (you entered 'red')"),
        ({"type": ["integer", "null"]}, "x", "Please enter a whole number or null (you entered 'x')"),
        ({"type": "integer"}, "many", "Please enter a whole number (you entered 'many')"),
        ({"type": "integer", "minimum": 0}, -1, "Please enter a whole number (-1 is less than the minimum of 0)"),
        (ADDRESS, {"city": 3}, 'Please enter a JSON object with city (city: 3 is not of type "string")'),
        ({"not": {}}, 3, "Please enter JSON ({} is not allowed for 3)"),
    ]
    for schema, value, said in cases:
        with subtests.test(schema=schema, value=value):
            with pytest.raises(SettingsError) as caught:
                check_answer(schema, value)
            assert str(caught.value) == said


def test_answer_that_is_not_plain_data_is_refused(subtests: pytest.Subtests) -> None:
    for value in [object(), {1: object()}, {"a": float}, {1, object()}]:
        with subtests.test(value=value):
            with pytest.raises(SettingsError, match="cannot be written as JSON"):
                check_answer({}, value)
    assert check_answer({}, {"half \ud83d": ["\ud83d"]}) == {"half \ufffd": ["\ufffd"]}


def test_answer_with_a_surrogate_can_be_stored() -> None:
    assert check_answer(TEXT, "a\ud83d") == "a\N{REPLACEMENT CHARACTER}"
    assert answer_in_words(TEXT, "a\ud83d") == "a\N{REPLACEMENT CHARACTER}"


def test_long_answer_is_shortened_in_the_error() -> None:
    with pytest.raises(SettingsError) as caught:
        check_answer({"enum": ["a"]}, "x" * 100_000)
    assert len(str(caught.value)) < 500


def test_external_references_of_a_schema_are_not_fetched(snapshot: Snapshot) -> None:
    with pytest.raises(SettingsError, check=snapshot.worded):
        check_answer({"$ref": "http://localhost:1/x"}, "red")


def test_each_schema_determines_the_answer_form(subtests: pytest.Subtests) -> None:
    fields = {"name": {"type": "string"}, "age": {"type": "integer"}}
    forms: list[tuple[dict[str, Any], AnswerForm]] = [
        ({}, AnswerForm("text")),
        ({"type": "string", "minLength": 3}, AnswerForm("text")),
        ({"type": "string", "format": "uri"}, AnswerForm("address")),
        ({"type": "string", "format": "email"}, AnswerForm("address")),
        ({"type": "string", "format": "date"}, AnswerForm("text")),
        ({"enum": ["red", 3]}, AnswerForm("choice", ["red", 3])),
        ({"type": "boolean"}, AnswerForm("choice", [True, False])),
        ({"anyOf": [{"enum": ["red"]}, {"type": "object"}]}, AnswerForm("choice", ["red"], has_others=True)),
        ({"type": "integer"}, AnswerForm("number")),
        ({"type": "number", "enum": [1, 2]}, AnswerForm("choice", [1, 2])),
        ({"type": ["integer", "null"]}, AnswerForm("json")),
        ({"type": "array"}, AnswerForm("json")),
        ({"type": "object", "properties": fields}, AnswerForm("json")),
        ({"type": "object", "properties": {"name": {"$ref": "#/$defs/a"}}}, AnswerForm("json")),
    ]
    for schema, form in forms:
        with subtests.test(str(schema)):
            assert answer_form(schema) == form


def test_typed_text_is_read_as_the_expected_type(subtests: pytest.Subtests) -> None:
    cases = [
        (TEXT, "  any words ", "any words"),
        (TEXT, "42", "42"),
        (TEXT, '{"a": 1}', '{"a": 1}'),
        ({"enum": ["Red", "Blue"]}, "blue", "Blue"),
        ({"enum": ["yes", "no"]}, "YES", "yes"),
        ({"enum": [1, 2]}, "2", 2),
        ({"type": "boolean"}, "Yes", True),
        ({"type": "boolean"}, "n", False),
        ({"type": "boolean"}, "true", True),
        ({"type": "number"}, "2.5", 2.5),
        ({"type": "integer"}, "-3", -3),
        ({"type": ["integer", "null"]}, "null", None),
        ({"type": ["string", "integer"]}, "3", "3"),
        (ADDRESS, '{"city": "Bonn"}', {"city": "Bonn"}),
        ({"type": "array", "items": {"type": "integer"}}, "[1, 2]", [1, 2]),
        ({}, "words", "words"),
    ]
    for schema, text, value in cases:
        with subtests.test(schema=schema, text=text):
            read = answer_in_words(schema, text)
            assert (read, type(read)) == (value, type(value))


def test_typed_text_that_fits_no_type_is_refused(subtests: pytest.Subtests) -> None:
    cases = [
        ({"enum": ["red", "blue"]}, "green", "Please choose one of: red, blue (you entered 'green')"),
        ({"type": "boolean"}, "perhaps", "Please choose one of: yes, no (you entered 'perhaps')"),
        ({"type": "number"}, "many", "Please enter a number (you entered 'many')"),
        ({"type": "integer", "minimum": 0}, "-1", "Please enter a whole number (-1 is less than the minimum of 0)"),
        (ADDRESS, "Bonn", "Please enter a JSON object with city (you entered 'Bonn')"),
        ({"type": "boolean"}, "[" * 5_000, "Please choose one of: yes, no (you entered '[[["),
    ]
    for schema, text, said in cases:
        with subtests.test(schema=schema, text=text):
            with pytest.raises(SettingsError) as caught:
                answer_in_words(schema, text)
            assert str(caught.value).startswith(said)


@given(json_values)
def test_any_json_can_be_typed_unless_text_is_expected(value: Any) -> None:
    schema = {"not": {"type": "string"}}
    if not isinstance(value, str):
        assert answer_in_words(schema, msgspec.json.encode(value).decode()) == value


@given(st.text(max_size=30))
def test_any_text_can_be_typed_where_text_is_expected(text: str) -> None:
    assert answer_in_words(TEXT, text) == text.strip()


# Schemas


def test_question_without_a_schema_expects_text() -> None:
    assert check_answer_schema(None) == {"type": "string"}


def test_schema_is_kept_as_plain_data() -> None:
    choices = ["a", "b"]
    schema = check_answer_schema({"enum": choices})
    choices.append("c")
    assert schema == {"enum": ["a", "b"]}


def test_invalid_schema_is_refused(subtests: pytest.Subtests) -> None:
    for schema in ["a text", 3, {"type": "nonsense"}, {"enum": object()}]:
        with subtests.test(schema=schema):
            with pytest.raises(SettingsError):
                check_answer_schema(schema)


def test_run_that_asked_a_question_is_rebuilt_as_completed() -> None:
    story = asking(COLOUR).add(e.QuestionAnswered, question_id="q1", answer="red")
    story.add(e.ToolFinished, result=ToolResult("c1", "ask", (Text("red"),))).ended().begun().replied(Text("Done."))
    run = Run.from_events(story.over().events)
    assert (run.status, run.text, run.waiting) == ("completed", "Done.", ())
