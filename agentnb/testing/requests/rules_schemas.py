"""Providers' rules for the JSON Schema of a tool's arguments, and their error messages."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from agentnb.core.schema.json_schema import check_schema
from agentnb.errors import SettingsError
from agentnb.testing.requests.value_checks import is_object_schema

ALTERNATIVES = ("oneOf", "allOf", "anyOf")
REFUSED_AT_ROOT = ("oneOf", "anyOf", "allOf", "enum", "not")
PROPERTY = re.compile(r"[a-zA-Z0-9_.-]{1,64}")


def of_openai(name: Any, schema: Any) -> Iterator[str]:
    """Yield the problems of a function's schema under the rules of OpenAI's APIs."""
    if not is_object_schema(schema):
        yield f"Invalid schema for function '{name}': schema must be a JSON Schema of 'type: \"object\"'."
    elif any(key in schema for key in REFUSED_AT_ROOT):
        refused = "/".join(f"'{key}'" for key in REFUSED_AT_ROOT)
        yield f"Invalid schema for function '{name}': schema must have type 'object' and not have {refused} at the top level."
    else:
        for context in _arrays_without_items(schema, ()):
            yield f"Invalid schema for function '{name}': In context={context}, array schema missing items."


def of_anthropic(at: str, schema: Any) -> Iterator[str]:
    """Yield the problems of a schema under the rules of the Messages API. ``at``: its location in the request."""
    if not is_object_schema(schema):
        yield f"{at}.type: Input should be 'object'"
        return
    if any(key in schema for key in ALTERNATIVES):
        yield f"{at}: input_schema does not support oneOf, allOf, or anyOf at the top level"
    properties = schema.get("properties")
    if isinstance(properties, dict) and not all(map(PROPERTY.fullmatch, properties)):
        yield f"{at}.properties: Property keys should match pattern '^[a-zA-Z0-9_.-]{{1,64}}$'"
    try:
        check_schema(schema, "", "")
    except SettingsError:
        yield f"{at}: JSON schema is invalid. It must match JSON Schema draft 2020-12 (https://json-schema.org/draft/2020-12)."


def _arrays_without_items(part: Any, place: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    """Yield the locations of arrays without ``items``."""
    if not isinstance(part, dict):
        return
    if part.get("type") == "array" and "items" not in part:
        yield place
    for key, value in part.items():
        if key in ("properties", "$defs", "definitions") and isinstance(value, dict):
            for name, subschema in value.items():
                yield from _arrays_without_items(subschema, (*place, key, name))
        elif key in (*ALTERNATIVES, "prefixItems") and isinstance(value, list):
            for index, subschema in enumerate(value):
                yield from _arrays_without_items(subschema, (*place, key, str(index)))
        elif key in ("items", "additionalProperties"):
            yield from _arrays_without_items(value, (*place, key))
