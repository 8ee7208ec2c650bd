"""Conversion of a todo, written as JSON by a model or as a dict by a person, to the fields of `Todo`.

Accepts obvious variants (numbers as text, ``In_Progress``, snake case, null for a missing value) and reports all other
problems.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Annotated, Any, TypeAlias, get_args

import msgspec

from agentnb.core.messages import encodable
from agentnb.core.todos import Priority, Todo, TodoStatus, normal_status
from agentnb.errors import with_names

Fields: TypeAlias = dict[str, Any]
"""Values by attribute name."""

STATUSES: tuple[str, ...] = get_args(TodoStatus)
PRIORITIES: tuple[str, ...] = get_args(Priority)
MAX_ID = 2**53 - 1
"""Largest integer that all JSON parsers represent exactly."""

_TEXT = "a string"
_WANTED: dict[str, tuple[Any, str]] = {
    "id": (Annotated[int, msgspec.Meta(ge=0, le=MAX_ID)], "a whole number, 0 or more"),
    "title": (Annotated[str, msgspec.Meta(min_length=1)], "a string of three to seven words"),
    "status": (TodoStatus, f"one of {', '.join(STATUSES)}"),
    "description": (str, _TEXT),
    "priority": (Priority, f"one of {', '.join(PRIORITIES)}"),
    "dependencies": (tuple[int, ...], "a list of ids"),
    "can_run_parallel": (bool, "true or false"),
    "parallel_group": (str, _TEXT),
    "progress": (Annotated[float, msgspec.Meta(ge=0, le=1)], "a number from 0 to 1"),
    "blocked_reason": (str, _TEXT),
}
_TIMES = ("created_at", "updated_at")
_STRUCT_FIELDS = {field.name: field for field in msgspec.structs.fields(Todo)}
_ATTRIBUTES = {name: field.name for field in _STRUCT_FIELDS.values() for name in (field.name, field.encode_name)}
"""Attribute names by their spelling in snake case and camel case."""
_KEPT_BY_THE_LIST = frozenset({"createdAt", "updatedAt", "conversationId", "created_at", "updated_at", "conversation_id"})
"""Fields that a model may repeat but not set."""

OF_A_PERSON = tuple(_WANTED)[1:]
"""Fields that a person may set, by Python name."""


def decode_json(value: Any) -> Any:
    """Decode a list or object that arrived as JSON text; return other values unchanged."""
    if isinstance(value, str) and value.lstrip().startswith(("[", "{")):
        try:
            return json.loads(value)
        except (ValueError, RecursionError):
            return value
    return value


def item_label(parameter: str, index: int, item: Any) -> str:
    """Return the label of an item for messages: ``todoList[2] (id 3)``."""
    number = item.get("id") if isinstance(item, dict) else getattr(item, "id", None)
    return f"{parameter}[{index}]" + (f" (id {value_text(number)})" if number is not None else "")


def read_item(given: Any, required: Iterable[str] = ()) -> tuple[Fields, list[str]]:
    """Parse a model's todo into attributes and problems. Null means missing; times cannot be set."""
    given = decode_json(given)
    if not isinstance(given, dict):
        return {}, [f"must be an object with {', '.join(required)}, not {value_text(given)}"]
    missing = [f"{name} is missing" for name in required if given.get(name) is None]
    present = {name: value for name, value in given.items() if value is not None and name not in _KEPT_BY_THE_LIST}
    fields, problems = _read(present)
    return fields, missing + problems


def read_fields(given: Fields) -> tuple[Fields, list[str]]:
    """Parse a person's todo into attributes and problems. Fields set to None return to their default."""
    cleared = {}
    for name, value in given.items():
        field = _STRUCT_FIELDS.get(_ATTRIBUTES.get(name, ""))
        if value is None and field is not None and field.default is not msgspec.NODEFAULT:
            cleared[field.name] = field.default
    present = {name: value for name, value in given.items() if _ATTRIBUTES.get(name) not in cleared}
    fields, problems = _read(present)
    return cleared | fields, problems


def value_text(value: Any) -> str:
    """Return a value for messages as JSON, truncated if long."""
    try:
        text = json.dumps(value, ensure_ascii=False)
    except (TypeError, ValueError, RecursionError):
        text = f"an object of type {type(value).__name__}"
    return text if len(text) <= 60 else f"{text[:57]}..."


def _read(given: Fields) -> tuple[Fields, list[str]]:
    fields: Fields = {}
    problems = []
    for name, value in given.items():
        attribute = _ATTRIBUTES.get(name)
        if attribute is None:
            names = [field.encode_name for field in _STRUCT_FIELDS.values() if field.name not in _TIMES]
            problems.append(with_names(f"unknown field {value_text(name)}.", str(name), names))
            continue
        wanted, words = _WANTED.get(attribute, (_STRUCT_FIELDS[attribute].type, "a time"))
        try:
            fields[attribute] = _tidy(attribute, msgspec.convert(_plain(attribute, value), wanted, strict=False))
        except msgspec.ValidationError:
            problems.append(f"{name} must be {words}, not {value_text(value)}")
    return fields, problems


def _plain(attribute: str, value: Any) -> Any:
    """Normalize a value before validation: spelling of choices, and line breaks in single-line text."""
    if attribute == "dependencies":
        return decode_json(value)
    if not isinstance(value, str):
        return value
    if attribute in ("status", "priority"):
        return normal_status(value)
    return encodable(value.strip() if attribute == "description" else " ".join(value.split()))


def _tidy(attribute: str, value: Any) -> Any:
    if attribute == "dependencies":
        return tuple(dict.fromkeys(value))
    return None if value == "" and attribute in ("parallel_group", "blocked_reason") else value
