"""Foreign schemas: read where possible, within bounds."""

from __future__ import annotations

from typing import Any

import pytest

from agentnb.core.schema import json_schema
from agentnb.core.schema.json_schema import MAX_REPAIRS, UnusableSchema, schema_problems, usable_schema
from agentnb.core.schema.nesting import cut_deep
from agentnb.core.schema.secret_fields import secret_fields
from agentnb.core.schema.whole_numbers import whole_numbers

TEXT = {"type": "string"}
JSON = {
    "$ref": "#/$defs/any",
    "$defs": {
        "any": {
            "anyOf": [
                {"type": ["string", "number", "boolean", "null"]},
                {"type": "array", "items": {"$ref": "#/$defs/any"}},
                {"type": "object", "additionalProperties": {"$ref": "#/$defs/any"}},
            ]
        }
    },
}


def fan(kind: str, levels: int = 60, refer: str = "#/$defs/d{}") -> dict[str, Any]:
    """Return a schema with two references to the next level in each level."""
    links = [{"$anchor": f"d{i}", kind: [{"$ref": refer.format(i + 1)}] * 2} for i in range(levels)]
    return {
        "$ref": refer.format(0),
        "$defs": {f"d{i}": one for i, one in enumerate([*links, {"$anchor": f"d{levels}", **TEXT}])},
    }


def chain(length: int) -> dict[str, Any]:
    return {
        "$ref": "#/$defs/d0",
        "$defs": {**{f"d{i}": {"$ref": f"#/$defs/d{i + 1}"} for i in range(length)}, f"d{length}": TEXT},
    }


def nested(levels: int) -> Any:
    value: Any = {}
    for _ in range(levels):
        value = {"a": {"b": value}}
    return value


TWICE = {"properties": {"a": {"anyOf": [{"properties": {"b": {"$ref": "#"}}}] * 2}}}
ITEMS = {"items": {"anyOf": [{"items": {"$ref": "#"}}] * 2}}
ENDLESS = {
    "all of": (fan("allOf"), 1.0),
    "any of": (fan("anyOf"), 1.0),
    "one of": (fan("oneOf"), "a"),
    "by anchor": (fan("allOf", refer="#d{}"), "a"),
    "by an escaped pointer": (fan("allOf", refer="#/%24defs/d{}"), "a"),
    "by its own address": ({"$id": "https://x.org/s", **fan("allOf", refer="https://x.org/s#/$defs/d{}")}, "a"),
    "by another address": ({"allOf": [{"$id": "https://x.org/s", **fan("allOf", refer="s#/$defs/d{}")}]}, "a"),
    "properties": (TWICE, nested(60)),
    "items": (ITEMS, [[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[1.0]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]),
}


def test_endless_schema_check_is_abandoned(subtests: pytest.Subtests, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(json_schema, "MAX_STEPS_OF_VALUE", 2_000)
    for name, (schema, value) in ENDLESS.items():
        with subtests.test(name):
            assert [*schema_problems(schema, value)] == ["its schema is too complex to check this value"]
            assert whole_numbers(schema, value) is value
            assert secret_fields(schema) == []


def test_problems_of_many_alternatives_are_merged_into_one() -> None:
    schema = {"items": {"anyOf": [{"type": "string", "minLength": length} for length in range(100)]}}
    assert [*schema_problems(schema, ["a" * 99] * 1_000)] == []
    (problem,) = schema_problems(schema, [*range(1_000)])
    assert "would take too long" in problem


def test_recursive_and_deep_schemas_are_checked(subtests: pytest.Subtests) -> None:
    rows = [{"a": [1, 2, {"b": None}]}] * 100
    cases = [(JSON, rows, True), (JSON, [*rows, {1}], False), (chain(3_000), "a", True), (chain(3_000), 1, False)]
    for place, (schema, value, fits) in enumerate(cases):
        with subtests.test(str(place)):
            assert bool([*schema_problems(schema, value)]) != fits
    assert whole_numbers(JSON, rows) == rows


NEEDED = {"dependentRequired": {"a": ["b"]}, "dependentSchemas": {"c": TEXT}}
NULLABLE = {"type": ["string", "null"], "nullable": True, "enum": ["a", None]}
ANCHORED = {"$ref": "#a", "definitions": {"b": {"$anchor": "a"}}}
LOST = {
    "pattern that nothing reads": ["pattern"],
    "pattern that takes memory": ["pattern"],
    "required of draft 3": ["required"],
    "type that nobody knows": ["type"],
    "reference to elsewhere": ["$ref"],
    "reference to nothing": ["$ref"],
    "name of a property": ["properties.pattern.type"],
    "property called description": ["properties.description", "properties.required"],
    "dynamic reference to nothing": ["$dynamicRef"],
}
"""Omitted keywords, by case name."""


def test_unreadable_keywords_are_translated_or_omitted(subtests: pytest.Subtests) -> None:
    for name, given, read in (
        ("pattern of JavaScript", {"pattern": "^[\\w-.]+$"}, {"pattern": "^[\\w\\-.]+$"}),
        ("anything in JavaScript", {"pattern": "^{[^]+}$"}, {"pattern": "^\\{[\\s\\S]+}$"}),
        ("braces that stay", {"pattern": "^[\\w-.]\\{\\p{L}{2,3}$"}, {"pattern": "^[\\w\\-.]\\{\\p{L}{2,3}$"}),
        ("dependencies of draft 7", {"dependencies": {"a": ["b"], "c": TEXT}}, NEEDED),
        ("recursion of 2019-09", {"items": {"$recursiveRef": "#"}}, {"items": {"$ref": "#"}}),
        ("pattern that nothing reads", {"pattern": "(["}, {}),
        ("pattern that takes memory", {"pattern": "\\p{L}{500}"}, {}),
        ("limit of draft 4", {"minimum": 0, "exclusiveMinimum": True}, {"exclusiveMinimum": 0}),
        ("no limit of draft 4", {"maximum": 9, "exclusiveMaximum": False}, {"maximum": 9}),
        ("tuple", {"items": [TEXT], "additionalItems": False}, {"prefixItems": [TEXT], "items": False}),
        ("required of draft 3", {"type": "string", "required": True}, TEXT),
        ("type that nobody knows", {"type": "any"}, {}),
        ("null", {"properties": None}, {}),
        ("null of OpenAPI", {"type": "string", "nullable": True, "enum": ["a"]}, NULLABLE),
        ("objects of PHP", {"type": "object", "properties": [], "$defs": []}, {"type": "object"}),
        ("types of Gemini", {"type": "ARRAY", "items": {"type": "STRING"}}, {"type": "array", "items": TEXT}),
        ("lists of names twice", {"required": [["a"], ["a"], "b"]}, {"required": ["b"]}),
        ("names twice", {"required": ["a", "a"]}, {"required": ["a"]}),
        ("anchor of draft 7", {"$ref": "#a", "definitions": {"b": {"$id": "#a"}}}, ANCHORED),
        ("annotations", {"title": 5, "examples": "a", "deprecated": "no"}, {}),
        ("property called description", {"properties": {"description": "text", "required": ["a"]}}, {"properties": {}}),
        ("dynamic reference to nothing", {"$dynamicRef": "#x"}, {}),
        ("reference to elsewhere", {"$ref": "https://example.org/x.json"}, {}),
        ("reference to nothing", {"$ref": "#/$defs/x", "title": "A"}, {"title": "A"}),
        ("name of a property", {"properties": {"pattern": {"type": "any"}}}, {"properties": {"pattern": {}}}),
    ):
        with subtests.test(name):
            within = {"type": "object", "properties": {"q": {"anyOf": [given]}}}
            schema_read = usable_schema(within)
            lost = [place.removeprefix("properties.q.anyOf.0.") for place in schema_read.left_out]
            assert lost == LOST.get(name, [])
            assert schema_read.schema == {"type": "object", "properties": {"q": {"anyOf": [read]}}}
            assert usable_schema(schema_read.schema) == (schema_read.schema, ())
    for name, given in {
        "many": {"properties": {str(i): {"type": "any"} for i in range(MAX_REPAIRS + 1)}},
        "no object": 3,
    }.items():
        with subtests.test(name), pytest.raises(UnusableSchema):
            usable_schema(given)  # type: ignore[arg-type]


def test_excessive_nesting_is_truncated() -> None:
    text = '{"a": [1, {"b": "]["}], "c": []}'
    assert [cut_deep(text, most) for most in (1, 2, 3)] == ['{"a": [], "c": []}', '{"a": [1, {}], "c": []}', text]
    assert cut_deep("[" * 9, 3) == "[" * 4 and cut_deep('"[[["', 1) == '"[[["'
