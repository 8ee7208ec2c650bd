"""Steps of checking a value against a JSON Schema: references that branch can multiply them without an end."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any
from urllib.parse import unquote

MAX_STEPS = 1_000
"""Steps of a schema alone up to which each value may be checked; a schema that refers to itself always has more."""
MAX_STEPS_OF_VALUE = 50_000
_ANY = object()
"""A value that is not known: it may have every property and item."""
_LISTS = ("allOf", "anyOf", "oneOf")
_SAME = ("not", "if", "then", "else")
_OF_PROPERTIES = ("additionalProperties", "unevaluatedProperties")
_OF_ITEMS = ("items", "contains", "unevaluatedItems")
_METASCHEMA = re.compile(r"https?://json-schema\.org/")


def takes_too_long(schema: Any, value: Any = _ANY, most: int = MAX_STEPS) -> bool:
    """Return whether checking a value takes more steps; without a value, whether it may for some."""
    todo, alone = [(schema, value)], set[tuple[int, int]]()
    for _ in range(most):
        if not todo:
            return False
        part, instance = todo.pop()
        if not todo:  # it has come here without a branch: the validator ends a loop
            if (id(part), id(instance)) in alone:
                return False
            alone.add((id(part), id(instance)))
        if isinstance(part, dict):
            todo += _applied(part, schema, instance)
    return True


def _applied(part: dict[str, Any], root: Any, value: Any) -> Iterator[tuple[Any, Any]]:
    """Yield each schema that a schema applies, and to which value."""
    for key in ("$ref", "$dynamicRef"):
        if key in part:
            yield _referred(part[key], root), value
    yield from ((one, value) for key in _LISTS if isinstance(part.get(key), list) for one in part[key])
    yield from ((part[key], value) for key in _SAME if key in part)
    yield from ((one, value) for one in _by_name(part, "dependentSchemas").values())
    known = _by_name(part, "properties")
    if value is _ANY:
        yield from ((one, _ANY) for key in ("properties", "patternProperties") for one in _by_name(part, key).values())
        yield from ((part[key], _ANY) for key in (*_OF_PROPERTIES, *_OF_ITEMS) if key in part)
        yield from ((one, _ANY) for one in part.get("prefixItems") or ())
    elif isinstance(value, dict):
        others = [*_by_name(part, "patternProperties").values(), *[part[key] for key in _OF_PROPERTIES if key in part]]
        yield from ((known[name], one) for name, one in value.items() if name in known)
        yield from ((schema, one) for schema in others for one in value.values())
    elif isinstance(value, list):
        each = [part[key] for key in _OF_ITEMS if key in part]
        yield from zip(part.get("prefixItems") or (), value, strict=False)
        yield from ((schema, one) for schema in each for one in value)


def _by_name(part: dict[str, Any], key: str) -> dict[str, Any]:
    found = part.get(key)
    return found if isinstance(found, dict) else {}


def _referred(reference: Any, root: Any) -> Any:
    """Return the part of a schema that a reference names; with another address it counts as one without an end."""
    address, _, fragment = str(reference).partition("#")
    if address and not (isinstance(root, dict) and address == root.get("$id")):
        return True if _METASCHEMA.match(address) else {"allOf": [root, root], "$ref": reference}
    first, *steps = unquote(fragment).split("/")
    found = _anchored(root, first) if first else root
    for step in steps:
        parts = dict(enumerate(found)) if isinstance(found, list) else found
        key = int(step) if isinstance(found, list) and step.isdecimal() else step.replace("~1", "/").replace("~0", "~")
        found = parts.get(key) if isinstance(parts, dict) else None
    return found


def _anchored(root: Any, name: str) -> Any:
    todo = [root]
    while todo:
        part = todo.pop()
        if isinstance(part, dict) and name in (part.get("$anchor"), part.get("$dynamicAnchor")):
            return part
        todo += part.values() if isinstance(part, dict) else part if isinstance(part, list) else ()
    return None
