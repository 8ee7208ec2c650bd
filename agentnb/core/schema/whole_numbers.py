"""Whole numbers written as 1.0: JSON Schema takes them for integers, and models send them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from agentnb.core.schema.json_schema import UnusableSchema, integer_places


def whole_numbers(schema: Any, value: Any) -> Any:
    """Return the value with 1.0 as 1 wherever the schema allows an integer and no other number.

    The very same object is returned if nothing changes.
    """
    halves = _changed(value, lambda number, _: number + 0.5)  # an error is where no other number fits
    try:
        places = set() if halves is value else integer_places(schema, halves)
    except UnusableSchema:
        return value
    whole = _changed(value, lambda number, place: int(number) if place in places else number)
    return whole if whole is value else whole_numbers(schema, whole)


def _changed(value: Any, change: Callable[[float, tuple[str, ...]], float], place: tuple[str, ...] = ()) -> Any:
    """Return the value with its whole floats changed; the very same object if none is."""
    if isinstance(value, float):
        return change(value, place) if value.is_integer() else value
    if not isinstance(value, dict | list):
        return value
    items = dict(value.items() if isinstance(value, dict) else enumerate(value))
    changed = {key: _changed(item, change, (*place, str(key))) for key, item in items.items()}
    if all(changed[key] is item for key, item in items.items()):
        return value
    return changed if isinstance(value, dict) else [*changed.values()]
