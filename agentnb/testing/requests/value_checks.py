"""Checks shared by the rules of several APIs."""

from __future__ import annotations

import base64
import json
from collections.abc import Collection, Iterable, Iterator
from typing import Any

PICTURES = ("image/jpeg", "image/png", "image/gif", "image/webp")


def names(text: str) -> frozenset[str]:
    """Split the text into a set of names."""
    return frozenset(text.split())


def extra(value: dict[str, Any], known: Collection[Any]) -> list[str]:
    """Return the unknown names in the value."""
    return [name for name in value if name not in known]


def missing(value: dict[str, Any], wanted: Iterable[str]) -> list[str]:
    """Return the required names that the value lacks."""
    return [name for name in wanted if value.get(name) is None]


def find_repeated(values: Iterable[Any]) -> Iterator[Any]:
    """Yield each repeated value."""
    seen: set[Any] = set()
    for value in values:
        if value in seen:
            yield value
        seen.add(value)


def is_base64(text: Any) -> bool:
    """Return whether the text is non-empty base64."""
    try:
        return len(base64.b64decode(text, validate=True)) > 0
    except (TypeError, ValueError):
        return False


def is_picture(url: Any) -> bool:
    """Return whether this is the URL of a picture, or a ``data:`` URL of a type that models accept."""
    if not isinstance(url, str):
        return False
    if not url.startswith("data:"):
        return url.startswith(("https://", "http://"))
    head, comma, data = url.removeprefix("data:").partition(",")
    return bool(comma) and head in {f"{kind};base64" for kind in PICTURES} and is_base64(data)


def is_object_text(text: Any) -> bool:
    """Return whether the text is a JSON object."""
    try:
        return isinstance(json.loads(text), dict)
    except (TypeError, ValueError):
        return False


def is_object_schema(schema: Any) -> bool:
    """Return whether the value is a JSON Schema for an object."""
    return isinstance(schema, dict) and schema.get("type") == "object"


def is_whole_number(value: Any, least: int = 1) -> bool:
    """Return whether the value is an integer of at least ``least``."""
    return isinstance(value, int) and not isinstance(value, bool) and value >= least
