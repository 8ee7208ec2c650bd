"""Steps of checking a value against a JSON Schema: references that branch can multiply them without an end."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any

from agentnb.core.schema.references import part_at

MAX_STEPS = 1_000
"""Steps of a schema alone up to which each value may be checked; a schema that refers to itself always has more."""
MAX_STEPS_OF_VALUE = 50_000
_ANY = object()
"""A value that is not known: it may have every property and item."""
_OF_THE_SAME = ("allOf", "anyOf", "oneOf", "not", "if", "then", "else", "dependentSchemas")
"""Keywords whose schemas apply to the same value."""
_OF_PARTS: dict[type, tuple[str, ...]] = {
    dict: ("patternProperties", "additionalProperties", "unevaluatedProperties"),
    list: ("prefixItems", "items", "contains", "unevaluatedItems"),
}
"""Keywords whose schemas apply to the properties or items of a value, as if each did to every one of them."""
_BY_NAME = ("properties", "patternProperties", "dependentSchemas")
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
    yield from ((one, value) for key in _OF_THE_SAME for one in _schemas(part, key))
    if value is _ANY:
        keys = ("properties", *_OF_PARTS[dict], *_OF_PARTS[list])
        yield from ((one, _ANY) for key in keys for one in _schemas(part, key))
        return
    parts = value.values() if isinstance(value, dict) else value
    yield from ((schema, one) for key in _OF_PARTS.get(type(value), ()) for schema in _schemas(part, key) for one in parts)
    if isinstance(value, dict) and isinstance(known := part.get("properties"), dict):
        yield from ((known[name], one) for name, one in value.items() if name in known)


def _schemas(part: dict[str, Any], key: str) -> Iterable[Any]:
    """Return the schemas of a keyword."""
    found = part.get(key, ())
    if key in _BY_NAME:
        return found.values() if isinstance(found, dict) else ()
    return found if isinstance(found, list | tuple) else (found,)


def _referred(reference: Any, root: Any) -> Any:
    """Return the part of a schema that a reference names; with another address it counts as one without an end."""
    address, _, fragment = str(reference).partition("#")
    if address and not (isinstance(root, dict) and address == root.get("$id")):
        return True if _METASCHEMA.match(address) else {"allOf": [root, root], "$ref": reference}
    return part_at(fragment, root)
