"""1.0 is an integer in JSON Schema, and is converted where only integers are allowed."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from property_settings import examples

from agentnb.core.questions import answer_in_words, check_answer
from agentnb.core.schema.json_schema import schema_errors
from agentnb.core.schema.whole_numbers import whole_numbers

INTEGER, NUMBER = {"type": "integer"}, {"type": "number"}
POINT = {"type": "object", "properties": {"x": INTEGER, "y": NUMBER}, "required": ["x"], "additionalProperties": False}
NAMED = {"type": "object", "properties": {"name": {"type": "string"}, "n": INTEGER}, "required": ["name"]}
TREE = {"$ref": "#/$defs/tree", "$defs": {"tree": {"type": "array", "items": {"anyOf": [INTEGER, {"$ref": "#/$defs/tree"}]}}}}


def as_json(value: Any) -> str:
    return msgspec.json.encode(value).decode()  # which tells 1 from 1.0


def test_integral_float_becomes_integer_where_only_integers_fit(subtests: pytest.Subtests) -> None:
    for schema, value, whole in (
        (INTEGER, 1.0, 1),
        (INTEGER, -0.0, 0),
        (INTEGER, 1.5, 1.5),
        (INTEGER, float("inf"), float("inf")),
        (NUMBER, 1.0, 1.0),
        ({}, 1.0, 1.0),
        (True, 1.0, 1.0),
        ({"type": ["integer", "null"]}, 1.0, 1),
        ({"type": ["integer", "number"]}, 1.0, 1.0),
        ({"anyOf": [INTEGER, {"type": "string"}]}, 1.0, 1),
        ({"anyOf": [INTEGER, NUMBER]}, 1.0, 1.0),
        ({"anyOf": [INTEGER, {}]}, 1.0, 1.0),
        ({"enum": [1, 2]}, 1.0, 1),
        ({"const": 1}, 1.0, 1),
        ({"type": "array", "items": INTEGER}, [1.0, 2, 2.5], [1, 2, 2.5]),
        ({"type": "array", "prefixItems": [INTEGER, NUMBER], "items": False}, [1.0, 1.0], [1, 1.0]),
        ({"type": "object", "additionalProperties": INTEGER}, {"a": 1.0}, {"a": 1}),
        (POINT, {"x": 1.0, "y": 1.0}, {"x": 1, "y": 1.0}),
        ({"anyOf": [POINT, NAMED]}, {"name": "a", "n": 3.0}, {"name": "a", "n": 3}),
        ({"anyOf": [{"type": "null"}, {"type": "array", "items": POINT}]}, [{"x": 2.0}], [{"x": 2}]),
        (TREE, [1.0, [2.0, [3.0]]], [1, [2, [3]]]),
        ({"$ref": "#"}, 1.0, 1.0),
        ({"$ref": "#/nowhere"}, [1.0], [1.0]),
    ):
        with subtests.test(schema=schema, value=value):
            assert as_json(whole_numbers(schema, value)) == as_json(whole)


SCHEMAS = st.recursive(
    st.sampled_from([INTEGER, NUMBER, {}, {"type": "string"}, {"type": ["integer", "null"]}, {"enum": [1, "a"]}]),
    lambda inner: st.one_of(
        inner.map(lambda one: {"type": "array", "items": one}),
        st.dictionaries(st.sampled_from("ab"), inner).map(lambda some: {"type": "object", "properties": some}),
        st.lists(inner, min_size=1, max_size=3).map(lambda some: {"anyOf": some}),
    ),
    max_leaves=5,
)
VALUES = st.recursive(
    st.sampled_from([1, 1.0, 2.5, "a", None, True]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("ab"), inner, max_size=2),
    max_leaves=6,
)


@examples(300)
@given(SCHEMAS, VALUES)
def test_converted_value_stays_equal_and_valid(schema: dict[str, Any], value: Any) -> None:
    whole = whole_numbers(schema, value)
    assert whole == value and (not schema_errors(schema, whole)) == (not schema_errors(schema, value))
    assert whole_numbers(schema, whole) is whole
    if as_json(whole) == as_json(value):
        assert whole is value


def test_integral_answer_is_an_integer_in_any_spelling() -> None:
    assert as_json([answer_in_words(INTEGER, "3.0"), check_answer(INTEGER, 3.0), check_answer(NUMBER, 3.0)]) == "[3,3,3.0]"
