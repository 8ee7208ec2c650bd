"""Whole numbers written as 1.0: JSON Schema takes them for integers, and models send them."""

from __future__ import annotations

from typing import Any

from agentnb.core.schema.json_schema import UnusableSchema, is_affordable, schema_errors
from agentnb.core.schema.references import MAX_IN_A_ROW, list_of, resolved


def whole_numbers(schema: Any, value: Any) -> Any:
    """Return the value with 1.0 as 1 wherever the schema allows an integer and no other number.

    The very same object is returned if nothing changes.
    """
    try:
        return _whole(schema, value, schema) if is_affordable(schema, value) else value
    except ValueError:  # no schema
        return value


def _whole(schema: Any, value: Any, root: Any) -> Any:
    schema = resolved(schema, root)
    if isinstance(value, float):
        return _number(schema, value, root)
    if not isinstance(value, dict | list) or not isinstance(schema, dict):
        return value
    for alternatives in (schema.get("anyOf"), schema.get("oneOf")):
        if isinstance(alternatives, list):
            return _of_alternatives(alternatives, value, root)
    return _object(schema, value, root) if isinstance(value, dict) else _array(schema, value, root)


def _number(schema: Any, value: float, root: Any) -> float | int:
    if not value.is_integer():
        return value
    kinds, same = _kinds(schema, root, MAX_IN_A_ROW)
    listed = next((one for one in same if type(one) is int and one == value), None)
    if listed is not None:
        return listed
    return int(value) if "integer" in kinds and not kinds & {"number", "any"} else value


def _kinds(schema: Any, root: Any, depth: int) -> tuple[set[str], list[Any]]:
    """Return the types that a schema allows, ``any`` if it does not say, and the values it lists."""
    schema = resolved(schema, root)
    if not isinstance(schema, dict) or not depth:
        return {"any"}, []
    if isinstance(schema.get("enum"), list):
        return set(), schema["enum"]
    if "const" in schema:
        return set(), [schema["const"]]
    kinds: set[str] = set()
    listed: list[Any] = []
    for one in [*list_of(schema.get("anyOf")), *list_of(schema.get("oneOf"))]:
        more, same = _kinds(one, root, depth - 1)
        kinds |= more
        listed += same
    named = schema.get("type")
    kinds |= {named} if isinstance(named, str) else {one for one in list_of(named) if isinstance(one, str)}
    return (kinds, listed) if kinds or listed else ({"any"}, [])


def _of_alternatives(alternatives: list[Any], value: Any, root: Any) -> Any:
    """Return the value as the first alternative has it that it fits."""
    for one in alternatives:
        whole = _whole(one, value, root)
        if isinstance(one, dict) and _fits({**one, "$defs": root.get("$defs", {})}, whole):
            return whole
    return value


def _fits(schema: dict[str, Any], value: Any) -> bool:
    try:
        return not schema_errors(schema, value)
    except UnusableSchema:
        return False


def _object(schema: dict[str, Any], value: dict[str, Any], root: Any) -> dict[str, Any]:
    known, others = schema.get("properties"), schema.get("additionalProperties")
    known = known if isinstance(known, dict) else {}
    whole = {name: _whole(known.get(name, others), one, root) for name, one in value.items()}
    return whole if any(whole[name] is not one for name, one in value.items()) else value


def _array(schema: dict[str, Any], value: list[Any], root: Any) -> list[Any]:
    first = list_of(schema.get("prefixItems"))
    rest = schema.get("items")
    whole = [_whole(first[place] if place < len(first) else rest, one, root) for place, one in enumerate(value)]
    return whole if any(new is not old for new, old in zip(whole, value, strict=True)) else value
