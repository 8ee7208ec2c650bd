"""Text as an answer to a JSON Schema: JSON alone, or in one code block."""

from __future__ import annotations

import re
from typing import Any

import pytest
from asserted_sentences import Snapshot
from hypothesis import given
from hypothesis import strategies as st
from property_settings import examples
from run_builder import Story

from agentnb.core.run.run_output import MAX_PROBLEMS, read_output
from agentnb.core.schema.json_schema import MAX_OF_A_PROBLEM, check_schema, schema_errors, schema_problems
from agentnb.errors import SettingsError

BIRDS: dict[str, Any] = {
    "type": "object",
    "properties": {"birds": {"type": "integer", "minimum": 0}, "on": {"type": "string", "format": "date"}},
    "required": ["birds"],
}
FITS = '{"birds": 12}'


def test_answer_is_json_alone_or_in_one_code_block(subtests: pytest.Subtests) -> None:
    for text in (
        FITS,
        f"  \n{FITS}\n",
        f"```json\n{FITS}\n```",
        f"```\n{FITS}\n```",
        f"Here it is:\n\n```json\n{FITS}\n```\nAnything else?",
        f"Here it is:\r\n```json\r\n{FITS}\r\n```\r\n",
        '```json\n{\n"birds":\n12\n}\n```',
    ):
        with subtests.test(text):
            assert read_output(text, BIRDS) == ({"birds": 12}, ())
    text = '{"birds": 12, "note": "```\\n{}\\n```"}'
    assert read_output(text, BIRDS).value["note"] == "```\n{}\n```"


def test_text_without_matching_json_has_problems(subtests: pytest.Subtests) -> None:
    for text, says in {
        "": "contains no text",
        "Twelve.": "not pure JSON; it begins with other text",
        '{"birds": 12,': "not pure JSON: Input data was truncated",
        f"There are {FITS} birds": "not pure JSON",
        f"{FITS} as I said": "not pure JSON",
        f"{FITS}\n{FITS}": "not pure JSON",
        f"```\n{FITS}\n```\n```\n{FITS}\n```": "several code blocks",
        f"```\n{FITS}": "is not closed",
        "I use ``` here": "is not closed",
        "[" * 500 + "]" * 500: "",
        '{"birds": "12"}': 'birds: "12" is not of type "integer"',
        '{"birds": -1}': "birds: -1 is less than the minimum of 0",
        '{"on": "2026-01-04"}': '"birds" is missing',
        '{"birds": 1, "on": "yesterday"}': 'on: "yesterday" is not a date such as 2026-07-28',
        '{"birds": NaN}': "not pure JSON",
        "[]": '[] is not of type "object"',
    }.items():
        with subtests.test(text[:40]):
            answer = read_output(text, BIRDS)
            assert answer.problems and says in answer.problems[0]


def test_problems_are_listed_up_to_a_count_and_length(snapshot: Snapshot) -> None:
    schema = {"type": "array", "items": {"type": "string", "maxLength": 3}}
    text = "[" + ",".join(['"' + "long" * 1_000 + '"'] * 50) + "]"
    problems = read_output(text, schema).problems
    assert len(problems) == MAX_PROBLEMS and max(map(len, problems)) <= MAX_OF_A_PROBLEM + 3
    assert read_output('"z"', {"enum": list("abcdef")}).problems == snapshot
    assert read_output("[1, true]", schema).problems == ('0: 1 is not of type "string"', '1: true is not of type "string"')


def test_problems_are_reported_for_the_likeliest_alternative() -> None:
    schema = {"anyOf": [{"type": "null"}, {"$ref": "#/$defs/birds"}], "$defs": {"birds": BIRDS}}
    assert read_output('{"birds": "many"}', schema).problems == ('birds: "many" is not of type "integer"',)


def test_dates_and_times_are_checked_without_optional_packages(subtests: pytest.Subtests) -> None:
    for form, good, bad in (
        ("date", "2026-01-04", "2026-13-04"),
        ("date-time", "2026-01-04T10:00:00Z", "2026-01-04T99:00:00Z"),
        ("time", "10:00:00", "ten"),
        ("duration", "PT1H", "an hour"),
        ("uuid", "00000000-0000-4000-8000-000000000000", "0000"),
        ("of its own", "anything", None),
    ):
        with subtests.test(form):
            schema = {"format": form}
            assert list(schema_problems(schema, good)) == []
            assert bad is None or list(schema_problems(schema, bad))
            assert list(schema_problems(schema, 7)) == schema_errors(schema, bad) == []


def test_endless_and_external_schemas_are_reported_as_problems() -> None:
    assert read_output("1", {"$ref": "#"}).problems == ()  # it requires nothing, and the validator accepts that
    assert "cannot be used" in read_output("1", {"type": 5}).problems[0]
    elsewhere = {"$ref": "https://example.org/schema.json"}
    assert "does not define" in read_output("1", elsewhere).problems[0]
    for schema, missing in (
        (elsewhere, "https://example.org/schema.json"),
        ({"items": {"$ref": "#/$defs/a"}, "$defs": {"b": {}}}, "#/$defs/a"),
        ({"$ref": "#anchor"}, "#anchor"),
    ):
        with pytest.raises(SettingsError, match=f"It refers to {re.escape(missing)}, which it does not define"):
            check_schema(schema, "It", "")
    sound = {"items": {"$ref": "#/$defs/b"}, "enum": [{"$ref": "#/x"}], "$defs": {"b": {"$ref": "#"}}}
    assert check_schema(sound, "It", "") == sound


def test_many_fences_are_read_in_linear_time() -> None:
    assert "several" in read_output("```\n```\n" * 50_000, BIRDS).problems[0]
    assert read_output("x\n" + "```json\n" * 50_000, BIRDS).problems


@examples(300)
@given(
    st.text(max_size=80)
    | st.lists(st.sampled_from(["```", "\n", "json", FITS, "{", '"', " ", "\ud800", "9" * 30])).map("".join)
)
def test_any_text_is_an_answer_or_has_problems(text: str) -> None:
    value, problems = read_output(text, BIRDS)
    assert isinstance(value, dict) or problems
    assert all(problem and problem.encode() for problem in problems)


def test_output_is_the_valid_answer_of_an_ended_run() -> None:
    settings = {"output": {"schema": BIRDS, "retries": 2}}
    tale = Story(settings=settings).said("Well.").said(FITS, reason="invalid_output")
    assert tale.run.output is None and tale.run.output_schema == BIRDS
    assert tale.over().run.output == {"birds": 12}
    assert Story(settings=settings).said("Well.").over().run.output is None
    assert Story(settings=settings).said(FITS).over("failed", "error").run.output is None
    assert Story().said(FITS).over().run.output is None
    for odd in ("free", {"schema": 5}, {}):
        assert Story(settings={"output": odd}).said(FITS).over().run.output is None
