"""Integers written like 1.0: JSON Schema accepts them as integers, and models send them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from agentnb.core.schema.json_schema import UnusableSchema, integer_places


def whole_numbers(schema: Any, value: Any) -> Any:
    """Replace 1.0 with 1 wherever the schema allows an integer and no other number.

    Returns the same object if nothing changes.
    """
    probe = with_leaves(
        value, lambda leaf, _: leaf + 0.5 if _is_whole(leaf) else leaf
    )  # refused where only integers are allowed
    try:
        places = set() if probe is value else integer_places(schema, probe)
    except UnusableSchema:
        return value
    whole = with_leaves(value, lambda leaf, place: int(leaf) if place in places and _is_whole(leaf) else leaf)
    return whole if whole is value else whole_numbers(schema, whole)


def _is_whole(leaf: Any) -> bool:
    return isinstance(leaf, float) and leaf.is_integer()


def with_leaves(value: Any, change: Callable[[Any, tuple[str, ...]], Any], place: tuple[str, ...] = ()) -> Any:
    """Apply ``change`` to each value in the objects and lists of plain data, with its position. Returns the same object if
    nothing changes.
    """
    if not isinstance(value, dict | list):
        return change(value, place)
    items = dict(value.items() if isinstance(value, dict) else enumerate(value))
    changed = {key: with_leaves(item, change, (*place, str(key))) for key, item in items.items()}
    if all(changed[key] is item for key, item in items.items()):
        return value
    return changed if isinstance(value, dict) else [*changed.values()]
