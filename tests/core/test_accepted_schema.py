"""Tool schemas for providers: refused keywords are rewritten, the rest is unchanged."""

from __future__ import annotations

from typing import Any

import pytest

from agentnb.core.request import ToolSpec
from agentnb.core.schema.accepted_schema import accepted_schema, real_names, with_real_names
from agentnb.models.providers.serialization import parameters
from agentnb.testing.requests.rules_schemas import of_anthropic, of_openai

TEXT, NUMBER = {"type": "string"}, {"type": "integer"}
ODD: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "no type and no properties": ({}, {"type": "object", "properties": {}}),
    "a text for its properties": ({"properties": "x"}, {"type": "object", "properties": {}}),
    "alternatives": (
        {
            "oneOf": [
                {"properties": {"id": NUMBER, "kind": {"const": "a"}}, "required": ["id", "kind"]},
                {"properties": {"path": TEXT, "kind": {"const": "b"}}, "required": ["path", "kind"]},
            ]
        },
        {
            "type": "object",
            "properties": {"id": NUMBER, "kind": {"anyOf": [{"const": "a"}, {"const": "b"}]}, "path": TEXT},
            "required": ["kind"],
        },
    ),
    "alternatives that only require": (
        {"type": "object", "properties": {"a": TEXT, "b": TEXT}, "anyOf": [{"required": ["a"]}, {"required": ["b"]}]},
        {"type": "object", "properties": {"a": TEXT, "b": TEXT}, "required": []},
    ),
    "all together": (
        {"allOf": [{"properties": {"a": TEXT}, "required": ["a"]}, {"properties": {"b": TEXT}, "required": ["b"]}]},
        {"type": "object", "properties": {"b": TEXT, "a": TEXT}, "required": ["a", "b"]},
    ),
    "a reference at its root": (
        {"$ref": "#/$defs/it", "$defs": {"it": {"type": "object", "properties": {"a": TEXT}, "required": ["a"]}}},
        {
            "type": "object",
            "properties": {"a": TEXT},
            "required": ["a"],
            "$defs": {"it": {"type": "object", "properties": {"a": TEXT}, "required": ["a"]}},
        },
    ),
    "a reference to itself": ({"$ref": "#"}, {"type": "object", "properties": {}, "required": []}),
    "neither this nor one of those": (
        {"type": "object", "not": {"required": ["a"]}, "enum": [{}]},
        {"type": "object", "properties": {}, "required": []},
    ),
    "arrays of anything": (
        {
            "type": "object",
            "properties": {
                "rows": {"type": "array", "items": {"type": ["array", "null"]}},
                "pair": {"type": "array", "prefixItems": [TEXT, {"type": "array"}]},
                "items": {"anyOf": [{"type": "array"}, TEXT]},
            },
            "$defs": {"list": {"type": "array"}},
        },
        {
            "type": "object",
            "properties": {
                "rows": {"type": "array", "items": {"type": ["array", "null"], "items": {}}},
                "pair": {"type": "array", "prefixItems": [TEXT, {"type": "array", "items": {}}], "items": {}},
                "items": {"anyOf": [{"type": "array", "items": {}}, TEXT]},
            },
            "$defs": {"list": {"type": "array", "items": {}}},
        },
    ),
    "names that are no plain words": (
        {"type": "object", "properties": {"$top": NUMBER, "_top": TEXT, "取引": TEXT}, "required": ["$top"]},
        {
            "type": "object",
            "properties": {"_top_ef8c21ad": {"title": "$top", **NUMBER}, "_top": TEXT, "__": {"title": "取引", **TEXT}},
            "required": ["_top_ef8c21ad"],
        },
    ),
}


def test_refused_schema_is_rewritten_for_all_providers(subtests: pytest.Subtests) -> None:
    for name, (schema, accepted) in ODD.items():
        with subtests.test(name):
            assert accepted_schema(schema) == accepted
            assert [*of_openai("it", accepted), *of_anthropic("it", accepted)] == []
            assert name == "no type and no properties" or [*of_openai("it", schema), *of_anthropic("it", schema)]


def test_accepted_schema_is_unchanged() -> None:
    schema = {
        "type": "object",
        "properties": {"type": {"enum": ["a", "b"]}, "where": {"oneOf": [TEXT, {"type": "array", "items": NUMBER}]}},
        "required": ["type"],
        "additionalProperties": False,
    }
    assert parameters(ToolSpec("it", "", schema)) == schema
    assert [*accepted_schema(schema)] == [*schema], "same order, for prompt caches"


def test_arguments_are_renamed_to_the_names_of_the_server() -> None:
    schema = {"properties": {"$top": NUMBER, "a" * 70: TEXT, "a": TEXT}}
    assert real_names(schema) == {"_top": "$top", "a" * 64: "a" * 70}
    assert with_real_names(schema, {"_top": 1, "a" * 64: "x", "a": "y"}) == {"$top": 1, "a" * 70: "x", "a": "y"}
    assert with_real_names(schema, "no object") == "no object"
