"""Forms for JSON Schemas of objects: fields, and the value of typed texts."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from property_settings import size

from agentnb.core.schema.filled_form import NEEDED, field_problem, filled_form
from agentnb.core.schema.form_fields import MAX_FIELDS, WHOLE, defaults, form_fields, leaves

TEXTS = st.text(st.characters(codec="utf-8", exclude_categories=("Cc", "Cs")) | st.just("\n"), min_size=1, max_size=70)
NAMES = st.sampled_from(["a", "a.b", "0", "other", "whole", "__proto__", "constructor", 'say "x"', "<b>", "größe", " "]) | TEXTS
PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=2),
    max_leaves=4,
)
LEAVES: list[tuple[dict[str, Any], st.SearchStrategy[Any]]] = [
    ({"type": "string"}, TEXTS),
    ({"type": "string", "maxLength": 500}, TEXTS),
    ({"type": "integer", "minimum": -5}, st.integers(-5, 2**80)),
    ({"type": "number"}, st.floats(allow_nan=False, allow_infinity=False) | st.integers()),
    ({"type": "boolean"}, st.booleans()),
    ({"enum": ["red", "", 1, None, [2]]}, st.sampled_from(["red", "", 1, None, [2]])),
    ({"oneOf": [{"const": "r", "title": "Red"}, {"const": "g"}]}, st.sampled_from(["r", "g"])),
    ({"type": ["integer", "null"]}, st.integers()),
    ({"anyOf": [{"$ref": "#/$defs/word"}, {"type": "null"}]}, TEXTS),
    ({"type": "array", "items": {"enum": ["r", "g", 1]}}, st.lists(st.sampled_from(["r", "g", 1]), unique=True, min_size=1)),
    ({"type": "array", "items": {"anyOf": [{"const": "r", "title": "Red"}]}}, st.just(["r"])),
    ({"type": "array", "items": {"type": "integer"}}, st.lists(st.integers(), max_size=3)),
    ({}, PLAIN),
]


@st.composite
def objects(draw: st.DrawFn, depth: int = 2) -> tuple[dict[str, Any], dict[str, Any]]:
    """Draw a schema of objects and a value that fits it."""
    properties: dict[str, Any] = {}
    value: dict[str, Any] = {}
    required = []
    for name in draw(st.lists(NAMES, min_size=1, max_size=4, unique=True)):
        is_group = depth and draw(st.integers(0, 4)) == 0
        schema, inner = draw(objects(depth - 1)) if is_group else draw(st.sampled_from(LEAVES).flatmap(pair))
        properties[name] = schema
        if draw(st.booleans()):
            required.append(name)
        if name in required or (draw(st.booleans()) and holds_a_leaf(inner)):
            value[name] = inner
    others = draw(st.dictionaries(TEXTS.filter(lambda name: name not in properties), PLAIN, max_size=1))
    return {
        "type": "object",
        "properties": properties,
        "required": required,
        "additionalProperties": bool(others),
        "$defs": {"word": {"type": "string"}},
    }, value | others


def holds_a_leaf(value: Any) -> bool:
    """True if a form shows the value; empty optional groups are left out."""
    return any(map(holds_a_leaf, value.values())) if isinstance(value, dict) else True


def pair(leaf: tuple[dict[str, Any], st.SearchStrategy[Any]]) -> st.SearchStrategy[tuple[dict[str, Any], Any]]:
    schema, values = leaf
    return values.map(lambda value: (schema, value))


def shown(schema: Any, value: Any) -> dict[str, str]:
    """Return the texts of a form with this initial value."""
    return {field.key: field.text for field in leaves(form_fields(schema, value)) if field.text}


@given(objects())
@settings(max_examples=size(20, nightly=3_000))
def test_value_survives_its_form_unchanged_or_retyped(made: tuple[dict[str, Any], dict[str, Any]]) -> None:
    schema, value = made
    assert filled_form(schema, value, {}) == (value, {})
    assert filled_form(schema, value, shown(schema, value)) == (value, {})
    assert filled_form(schema, None, shown(schema, value)) == (value, {})


PERSON = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "minLength": 2},
        "age": {"type": "integer", "minimum": 0, "maximum": 150},
        "mail": {"type": ["string", "null"]},
        "tags": {"type": "array", "items": {"type": "string"}},
        "home": {
            "type": "object",
            "properties": {"city": {"type": "string"}, "zip": {"type": "integer"}},
            "required": ["city"],
        },
        "colour": {"enum": ["red", "blue"]},
    },
    "required": ["name", "mail"],
    "additionalProperties": False,
}
ADA = {"name": "Ada", "mail": None}


def test_each_problem_is_assigned_to_its_field(subtests: pytest.Subtests) -> None:
    cases: list[tuple[dict[str, str], dict[str, str]]] = [
        ({"0": "A"}, {"0": '"A" is shorter than 2 characters'}),
        ({"1": "two"}, {"1": "Enter a whole number"}),
        ({"1": "1.5"}, {"1": '1.5 is not of type "integer"'}),
        ({"1": "200", "0": "A"}, {"0": '"A" is shorter than 2 characters', "1": "200 is greater than the maximum of 150"}),
        ({"1": "NaN"}, {"1": "Enter a whole number"}),
        ({"1": "9" * 5_000}, {"1": "Enter a whole number"}),
        ({"3": "[1"}, {"3": "Enter valid JSON"}),
        ({"3": "[" * 500 + "]" * 500}, {"3": "Enter valid JSON"}),
        ({"3": '["a", 1]'}, {"3": 'tags.1: 1 is not of type "string"'}),
        ({"4.1": "1010"}, {"4.0": NEEDED}),
        ({"5": '"green"'}, {"5": "Choose one of these"}),
    ]
    for texts, problems in cases:
        with subtests.test(str(texts)[:60]):
            assert filled_form(PERSON, ADA, texts).problems == problems
    assert filled_form(PERSON, None, {}).problems == {"0": NEEDED}, "a required field that may be null is null"


def test_typed_texts_become_values_and_empty_fields_are_omitted(subtests: pytest.Subtests) -> None:
    cases: list[tuple[Any, dict[str, str], Any]] = [
        (ADA, {"1": " 7 ", "2": "a@b"}, ADA | {"age": 7, "mail": "a@b"}),
        (ADA, {"4.0": "Rome"}, ADA | {"home": {"city": "Rome"}}),
        (ADA | {"age": 7, "tags": []}, {"1": "", "3": ""}, ADA),
        (ADA | {"mail": "a@b"}, {"2": ""}, ADA),
        (ADA | {"name": "Ada\r\nL"}, {}, ADA | {"name": "Ada\r\nL"}),
        (ADA, {"0": "Ada\r\nL"}, ADA | {"name": "Ada\nL"}),
        (ADA, {"unknown": "x", "__proto__": "y"}, ADA),
    ]
    for initial, texts, value in cases:
        with subtests.test(str(texts)):
            assert filled_form(PERSON, initial, texts) == (value, {})
    free = {"type": "object", "properties": {"a": {"type": "string"}}}
    assert filled_form(free, {"a": "", "b": 1}, {"other": '{"c": 2}'}) == ({"a": "", "c": 2}, {}), "a text that was empty stays"
    assert filled_form(free, {"a": "x", "b": 1}, {"other": '{"a": 2}'}).problems == {"other": "a has its own field above"}
    assert filled_form(free, {"a": "x", "b": 1}, {"other": "[]"}).problems == {"other": "Enter a JSON object"}


ASKED: dict[str, Any] = {
    "type": "object",
    "properties": {
        "mail": {"type": "string", "format": "email"},
        "site": {"type": "string", "format": "uri"},
        "day": {"type": "string", "format": "date"},
        "at": {"type": "string", "format": "date-time"},
        "code": {"type": "string", "pattern": "^[a-z]+$", "minLength": 2, "maxLength": 4},
        "note": {"type": "string", "maxLength": 5},
        "sure": {"type": "boolean"},
        "size": {"type": "string", "enum": ["s", "m"], "enumNames": ["Small", "Medium"]},
        "tags": {"type": "array", "items": {"type": "string", "enum": ["a", "b", "c"]}, "minItems": 1, "maxItems": 2},
        "teams": {"type": "array", "items": {"anyOf": [{"const": "x", "title": "Team X"}, {"const": "y"}]}},
        "rate": {"type": "number", "exclusiveMinimum": 0},
    },
    "required": ["tags"],
}
KEYS = {name: str(place) for place, name in enumerate(ASKED["properties"])}
RIGHT = {"tags": '["a"]'}


def asked(typed: dict[str, str]) -> tuple[Any, dict[str, str]]:
    """Return the value of a form and its problems by field; ``note.empty`` marks the empty text."""
    texts = {KEYS[name.partition(".")[0]] + "".join(name.partition(".")[1:]): text for name, text in typed.items()}
    value, problems = filled_form(ASKED, None, texts)
    names = {key: name for name, key in KEYS.items()}
    for field in leaves(form_fields(ASKED)):
        alone = field_problem(field, None, texts)
        assert (alone != "") == (field.key in problems), f"{field.label}: alone {alone!r}, in the form {problems}"
    return value, {names[key]: words for key, words in problems.items()}


def test_limits_are_checked_per_field_and_for_the_form(subtests: pytest.Subtests) -> None:
    wrong = {
        "mail": ("ada", "ada@", "a b@c.d"),
        "site": ("example.org", "https:// x"),
        "day": ("28.7.2026", "2026-02-30", "soon"),
        "at": ("2026-07-28", "noon"),
        "code": ("a", "abcde", "AB", "a1"),
        "note": ("123456",),
        "sure": ("perhaps", "1"),
        "size": ('"l"', "s", '"Small"'),
        "tags": ("[]", '["d"]', '["a","b","c"]', "a", '"a"', ""),
        "teams": ('["z"]', "{}"),
        "rate": ("0", "-1", "x", "true"),
    }
    for name, texts in wrong.items():
        for text in texts:
            with subtests.test(name, text=text):
                assert list(asked(RIGHT | {name: text})[1]) == [name]
    assert list(asked({})[1]) == ["tags"], "a list that requires a choice"


def test_each_kind_of_field_produces_its_value(subtests: pytest.Subtests) -> None:
    cases: list[tuple[dict[str, str], dict[str, Any]]] = [
        (
            {"mail": "ada@example.org", "site": "https://example.org/x"},
            {"mail": "ada@example.org", "site": "https://example.org/x"},
        ),
        ({"day": "2026-07-28", "at": "2026-07-28T09:30:00Z"}, {"day": "2026-07-28", "at": "2026-07-28T09:30:00Z"}),
        ({"sure": "false", "size": '"m"', "rate": "0.5"}, {"sure": False, "size": "m", "rate": 0.5}),
        ({"tags": '["b","a"]', "teams": '["x"]'}, {"tags": ["b", "a"], "teams": ["x"]}),
        ({"teams": "[]", "note": ""}, {}),
        ({"note.empty": "yes"}, {"note": ""}),
        ({"note": "abc", "note.empty": "yes"}, {"note": "abc"}),
        ({"code.empty": "yes"}, {}),  # its pattern excludes the empty text
    ]
    for typed, value in cases:
        with subtests.test(str(typed)):
            assert asked(RIGHT | typed) == ({"tags": ["a"]} | value, {})
    empty = {"type": "object", "properties": {"note": {"type": "string"}}}
    assert filled_form(empty, {"note": ""}, {}).value == {"note": ""}
    assert filled_form(empty, {"note": ""}, {"0.empty": ""}).value == {}, "the mark is removed"
    assert filled_form(empty, {"note": "x"}, {"0": ""}).value == {}
    assert filled_form(empty, {"note": "x"}, {"0": "", "0.empty": "yes"}).value == {"note": ""}


def test_fields_describe_accepted_values() -> None:
    kinds = {field.path[0]: field.kind for field in form_fields(ASKED)}
    assert kinds == dict.fromkeys(("mail", "site", "day", "at", "code", "note"), "text") | {
        "sure": "choice",
        "size": "choice",
        "tags": "choices",
        "teams": "choices",
        "rate": "number",
    }
    fields = {field.path[0]: field for field in form_fields(ASKED)}
    assert [option.label for option in fields["size"].options] == ["Small", "Medium"]
    assert [(option.text, option.label) for option in fields["teams"].options] == [('"x"', "Team X"), ('"y"', "y")]
    assert (fields["mail"].format, fields["code"].pattern, fields["code"].limits) == ("email", "^[a-z]+$", (2, 4))
    assert [name for name, field in fields.items() if field.may_be_empty] == ["note"]
    odds: list[Any] = [["a", "a"], ["z"], "a", [[]]]
    for odd in odds:
        assert form_fields(ASKED, {"tags": odd})[8].kind == "json", "a value outside the choices"


def test_value_that_contradicts_its_schema_is_shown_as_json() -> None:
    fields = form_fields(PERSON, {"name": 3, "age": "old", "home": 1, "colour": "green", "mail": "a\x1b[2J"})
    assert [(field.kind, field.text) for field in fields[:2]] == [("json", "3"), ("json", '"old"')]
    assert (fields[4].kind, fields[4].text) == ("json", "1") and fields[5].options[-1].label == "green"
    assert fields[2].kind == "json", "no field of a page has control characters"


def test_hostile_schema_becomes_one_field_or_a_small_form(subtests: pytest.Subtests) -> None:
    deep: dict[str, Any] = {"type": "object", "properties": {}}
    for _ in range(90):
        deep = {"type": "object", "properties": {"a": deep, "b": {"type": "string"}}}
    ring = {"type": "object", "properties": {"a": {"$ref": "#/$defs/a"}}, "$defs": {"a": {"$ref": "#/$defs/a"}}}
    tree = {"type": "object", "properties": {"a": {"$ref": "#/$defs/t"}}}
    tree["$defs"] = {"t": {"type": "object", "properties": {name: {"$ref": "#/$defs/t"} for name in map(str, range(40))}}}
    one_field = {
        "1,000 properties": {"type": "object", "properties": {f"p{n}": {"type": "string"} for n in range(1_000)}},
        "no properties": {"type": "object"},
        "a long name": {"type": "object", "properties": {"x" * 5_000: {}}},
        "a tree of references": tree,
        "nonsense": {"type": "object", "properties": [1]},
        "true": True,
    }
    for name, schema in one_field.items():
        with subtests.test(name):
            (field,) = form_fields(schema, {"a": {}})
            assert (field.key, field.kind, field.text) == (WHOLE, "json", '{"a":{}}')
    for name, schema in {
        "deep": deep,
        "ring": ring,
        "odd": {"type": "object", "properties": {"a": True, "b": 3, "c": {"$ref": 1}}},
    }.items():
        with subtests.test(name):
            assert 0 < len(list(leaves(form_fields(schema)))) <= MAX_FIELDS
    assert filled_form({"type": "object"}, None, {WHOLE: '{"a": 1}'}) == ({"a": 1}, {})
    assert set(filled_form({"type": "object"}, None, {WHOLE: "[1]"}).problems) == {WHOLE}


def test_form_is_prefilled_with_defaults() -> None:
    schema = {
        "type": "object",
        "properties": {"a": {"default": None}, "b": {"default": "x" * 9_000}, "c": {"default": 1}, "d": {}},
    }
    assert defaults(schema) == {"a": None, "c": 1} and defaults({"properties": 3}) == {} and defaults(True) == {}
