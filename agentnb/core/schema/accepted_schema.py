"""Tool schemas in a form that every provider accepts: some refuse an entire request because of one keyword in one tool."""

from __future__ import annotations

import re
import zlib
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, NamedTuple

import msgspec

from agentnb.core.messages import JsonObject
from agentnb.core.schema.references import SCHEMAS_BY_NAME, list_of, resolve

MAX_LEVELS = 5
"""Maximum nesting of alternatives to be merged."""
SAFE_PROPERTY = re.compile(r"[a-zA-Z0-9_.-]{1,64}")
_UNSAFE = re.compile(r"[^a-zA-Z0-9_.-]")
_ALTERNATIVES = ("anyOf", "oneOf")
_REFUSED_AT_ROOT = ("$ref", "allOf", *_ALTERNATIVES, "not", "enum")
_WITHIN = ("items", "additionalProperties", "contains", "not", "if", "then", "else", "allOf", "anyOf", "oneOf", "prefixItems")


def accepted_schema(schema: JsonObject) -> JsonObject:
    """Return the schema in a form that every provider accepts. May be more permissive: arguments are checked against the
    original.

    Alternatives at the root become one object with all their properties, arrays without ``items`` accept anything, and property
    names use plain letters, as in `real_names`.
    """
    return _accept(msgspec.json.encode(schema))


def real_names(schema: Mapping[str, Any]) -> dict[str, str]:
    """Return the property names that providers refuse, keyed by their replacements in `accepted_schema`."""
    names = [*_properties(schema)]
    names_by_safe = dict[str, str]()
    for name in names:
        if not SAFE_PROPERTY.fullmatch(name):
            safe = _UNSAFE.sub("_", name)[:64] or "_"
            is_taken = safe in names_by_safe or safe in names
            names_by_safe[f"{safe[:55]}_{zlib.crc32(name.encode()):08x}" if is_taken else safe] = name
    return names_by_safe


def _properties(schema: Mapping[str, Any]) -> JsonObject:
    """Return the properties of a schema; empty if malformed."""
    properties = schema.get("properties")
    return properties if isinstance(properties, dict) else {}


def with_real_names(schema: Mapping[str, Any], arguments: Any) -> Any:
    """Translate the names of a model's arguments from `accepted_schema` back to those of the schema."""
    names = real_names(schema)
    if not names or not isinstance(arguments, Mapping):
        return arguments
    return {names.get(name, name): value for name, value in arguments.items()}


@lru_cache(maxsize=512)
def _accept(text: bytes) -> JsonObject:
    schema: JsonObject = msgspec.json.decode(text)
    if any(key in schema for key in _REFUSED_AT_ROOT):
        whole = _merge(schema, schema, MAX_LEVELS)
        kept = {key: value for key, value in schema.items() if key not in _REFUSED_AT_ROOT}
        schema = {**kept, "properties": whole.properties, "required": sorted(whole.required)}
    properties, safe = _properties(schema), {real: name for name, real in real_names(schema).items()}
    named = {
        safe.get(name, name): {"title": name, **property_} if name in safe and isinstance(property_, dict) else property_
        for name, property_ in properties.items()
    }
    required = {"required": [safe.get(name, name) for name in list_of(schema.get("required"))]} if safe else {}
    object_schema = {"type": "object", "properties": named}
    accepted: JsonObject = _with_items({**object_schema, **schema, **object_schema, **required})
    return accepted


class _Object(NamedTuple):
    properties: JsonObject
    required: frozenset[str]


def _merge(part: Any, root: JsonObject, levels: int) -> _Object:
    """Return the properties that an object may have under a schema and its alternatives, and those that are required."""
    if not isinstance(part, dict) or not levels:
        return _Object({}, frozenset())
    properties = dict(_properties(part))
    required = frozenset(list_of(part.get("required")))
    conjuncts = [*list_of(part.get("allOf")), *([resolve(part, root)] if "$ref" in part else [])]
    for merged_part in [_merge(subschema, root, levels - 1) for subschema in conjuncts]:
        properties, required = merged_part.properties | properties, merged_part.required | required
    for key in _ALTERNATIVES:
        if alternatives := [_merge(subschema, root, levels - 1) for subschema in list_of(part.get(key))]:
            names = dict.fromkeys(name for alternative in alternatives for name in alternative.properties)
            properties = {name: _any_of(name, alternatives) for name in names} | properties
            required |= frozenset.intersection(*[merged_part.required for merged_part in alternatives])
    return _Object(properties, required)


def _any_of(name: str, alternatives: list[_Object]) -> Any:
    """Return the schema of a property shared by several alternatives."""
    schemas = list[Any]()
    for alternative in alternatives:
        if name in alternative.properties and alternative.properties[name] not in schemas:
            schemas.append(alternative.properties[name])
    return schemas[0] if len(schemas) == 1 else {"anyOf": schemas}


def _with_items(part: Any) -> Any:
    """Add ``items`` to every array of a schema, at any depth."""
    if isinstance(part, list):
        return [_with_items(item) for item in part]
    if not isinstance(part, dict):
        return part
    kept = {key: _with_items(value) if key in _WITHIN else value for key, value in part.items()}
    for key in SCHEMAS_BY_NAME:
        if isinstance(named := part.get(key), dict):
            kept[key] = {name: _with_items(item) for name, item in named.items()}
    kind = part.get("type")
    is_array = kind == "array" or (isinstance(kind, list) and "array" in kind)
    return {**kept, "items": {}} if is_array and "items" not in part else kept
