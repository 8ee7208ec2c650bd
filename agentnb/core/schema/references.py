"""References within a JSON Schema, and their targets."""

from __future__ import annotations

from typing import Any
from urllib.parse import unquote

MAX_IN_A_ROW = 100
"""Maximum number of consecutive references to follow; stops at schemas that only refer to themselves."""
SCHEMAS_BY_NAME = ("properties", "patternProperties", "dependentSchemas", "$defs", "definitions")
"""Keywords whose values are schemas by name."""


def resolve(schema: Any, root: Any) -> Any:
    """Follow references to parts of the root schema. External and circular ones resolve to True, allowing any value."""
    for _ in range(MAX_IN_A_ROW):
        reference = schema.get("$ref") if isinstance(schema, dict) else None
        if not isinstance(reference, str):
            return schema
        schema = part_at(reference[1:], root) if reference.startswith("#") else True
    return True


def part_at(fragment: str, root: Any) -> Any:
    """Return the part of a schema at a JSON pointer or anchor; True, which allows any value, if it is missing."""
    first, *steps = unquote(fragment).split("/")
    part = _find_anchor(root, first) if first else root
    for step in steps:
        parts = dict(enumerate(part)) if isinstance(part, list) else part
        key = int(step) if isinstance(part, list) and step.isdecimal() else step.replace("~1", "/").replace("~0", "~")
        part = parts.get(key, True) if isinstance(parts, dict) else True
    return part


def _find_anchor(root: Any, name: str) -> Any:
    todo = [root]
    while todo:
        part = todo.pop()
        if isinstance(part, dict) and name in (part.get("$anchor"), part.get("$dynamicAnchor")):
            return part
        todo += part.values() if isinstance(part, dict) else part if isinstance(part, list) else ()
    return True


def list_of(value: Any) -> list[Any]:
    """Return a value that should be a list; empty for any other type."""
    return value if isinstance(value, list) else []
