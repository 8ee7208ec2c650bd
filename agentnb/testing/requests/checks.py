"""Checks that rules of several wires are made of."""

from __future__ import annotations

import base64
import json
from collections.abc import Collection, Iterable, Iterator
from typing import Any

PICTURES = ("image/jpeg", "image/png", "image/gif", "image/webp")


def names(text: str) -> frozenset[str]:
    """The names that stand in this text."""
    return frozenset(text.split())


def extra(value: dict[str, Any], known: Collection[Any]) -> list[str]:
    """The names in it that are not known."""
    return [name for name in value if name not in known]


def missing(value: dict[str, Any], wanted: Iterable[str]) -> list[str]:
    """The names that should be in it and are not."""
    return [name for name in wanted if value.get(name) is None]


def repeated(values: Iterable[Any]) -> Iterator[Any]:
    """Each value that was there before."""
    seen: set[Any] = set()
    for value in values:
        if value in seen:
            yield value
        seen.add(value)


def is_base64(text: Any) -> bool:
    """Whether it is the base64 of something."""
    try:
        return len(base64.b64decode(text, validate=True)) > 0
    except (TypeError, ValueError):
        return False


def is_picture(url: Any) -> bool:
    """Whether it is the address of a picture, or one of a kind that models see as a ``data:`` URL."""
    if not isinstance(url, str):
        return False
    if not url.startswith("data:"):
        return url.startswith(("https://", "http://"))
    head, comma, data = url.removeprefix("data:").partition(",")
    return bool(comma) and head in {f"{kind};base64" for kind in PICTURES} and is_base64(data)


def is_object_text(text: Any) -> bool:
    """Whether it is a JSON object as text."""
    try:
        return isinstance(json.loads(text), dict)
    except (TypeError, ValueError):
        return False


def is_object_schema(schema: Any) -> bool:
    """Whether it is a JSON Schema for an object."""
    return isinstance(schema, dict) and schema.get("type") == "object"


def is_whole_number(value: Any, least: int = 1) -> bool:
    """Whether it is a number that can count something."""
    return isinstance(value, int) and not isinstance(value, bool) and value >= least
