"""JSON Schemas that come from outside, and values checked against them. No schema can make agentnb fetch anything."""

from __future__ import annotations

import datetime
import uuid
from collections.abc import Iterator
from functools import cache
from typing import Any

import msgspec

from agentnb.core.messages import encodable, encodable_data
from agentnb.core.nesting import MAX_DEPTH, is_too_deep
from agentnb.errors import SettingsError

MAX_OF_A_PROBLEM = 300
"""Maximum characters of one sentence about a value."""
_FORMATS = {
    "date": datetime.date,
    "date-time": datetime.datetime,
    "time": datetime.time,
    "duration": datetime.timedelta,
    "uuid": uuid.UUID,
}
"""The formats that are checked: always these, whatever else is installed."""


def checked_schema(schema: Any, what: str, example: str) -> dict[str, Any]:
    """Return the JSON Schema as plain data; raise `SettingsError` if it is not one. ``what`` names it, ``example`` is the hint.

    The first call loads a library, which takes a moment: do not make it on an event loop's thread.
    """
    from jsonschema import Draft202012Validator, SchemaError

    plain: dict[str, Any] = plain_data(schema)
    try:
        Draft202012Validator.check_schema(plain)
    except SchemaError as error:
        raise SettingsError(f"{what} is not a JSON Schema: {cut(error.message)}", example) from error
    return plain


def missing_references(schema: dict[str, Any]) -> Iterator[str]:
    """Yield each ``$ref`` of a schema that is not in the schema itself; nothing is fetched."""
    from referencing import Registry
    from referencing.exceptions import Unresolvable
    from referencing.jsonschema import DRAFT202012

    found = list(_references(schema))
    if any("$id" in one for one in found):  # then a reference depends on where it stands
        return
    resolver = Registry().with_resource("", DRAFT202012.create_resource(schema)).resolver()
    for reference in [one["$ref"] for one in found if isinstance(one.get("$ref"), str)]:
        try:
            resolver.lookup(reference)
        except Unresolvable:
            yield reference


def _references(schema: Any) -> Iterator[dict[str, Any]]:
    """Yield the objects of a schema that have a ``$ref`` or an ``$id``; not those in its sample values."""
    if isinstance(schema, dict):
        if "$ref" in schema or "$id" in schema:
            yield schema
        inner = [value for key, value in schema.items() if key not in ("const", "enum", "default", "examples")]
    else:
        inner = schema if isinstance(schema, list) else []
    for one in inner:
        yield from _references(one)


def schema_problems(schema: dict[str, Any], value: Any, *, formats: bool = False) -> Iterator[str]:
    """Yield what is wrong with plain data, one sentence each; nothing if it fits. ``formats``: check dates, times and UUIDs."""
    from jsonschema import Draft202012Validator
    from jsonschema.exceptions import best_match
    from referencing import Registry
    from referencing.exceptions import Unresolvable

    # An empty registry: no schema can make us fetch anything.
    validator = Draft202012Validator(schema, registry=Registry(), format_checker=_format_checker() if formats else None)
    try:
        for error in validator.iter_errors(value):
            nearest = best_match(iter([error])) or error  # of several alternatives, what is wrong with the likeliest
            where = ".".join(str(step) for step in nearest.absolute_path)
            yield cut(f"{where}: {nearest.message}" if where else nearest.message)
    except Unresolvable as missing:
        yield f"its schema refers to {missing.ref}, which is not in it"
    except RecursionError:
        yield "its schema never comes to an end"
    except Exception as error:  # a log from elsewhere may hold anything as its schema
        yield cut(f"its schema cannot be used ({type(error).__name__}: {error})")


def plain_data(value: Any, what: str = "That") -> Any:
    """Return the value as JSON holds it; raise `SettingsError` if JSON cannot hold it. ``what`` names it."""
    if isinstance(value, str):
        return encodable(value)
    if is_too_deep(value):
        why = f"it is nested deeper than {MAX_DEPTH} levels"
        raise SettingsError(f"{what} cannot be written as JSON ({why})", "Write what is deep as JSON text in one string")
    try:
        return msgspec.json.decode(msgspec.json.encode(encodable_data(value)))
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        words = encodable(cut(f"{type(error).__name__}: {error}"))
        raise SettingsError(f"{what} cannot be written as JSON ({words})", "Give texts, numbers, lists and dicts") from error


def cut(text: str) -> str:
    """Cut the middle out of a long text: the library repeats the whole value, and its own words come at the end."""
    half = MAX_OF_A_PROBLEM // 2
    return text if len(text) <= MAX_OF_A_PROBLEM else f"{text[:half]} … {text[-half:]}"


@cache
def _format_checker() -> Any:
    from jsonschema import FormatChecker

    checker = FormatChecker(())
    for name, kind in _FORMATS.items():
        checker.checkers[name] = (_reader(kind), msgspec.ValidationError)
    return checker


def _reader(kind: type) -> Any:
    def is_one(value: Any) -> bool:
        if isinstance(value, str):
            msgspec.convert(value, kind)
        return True

    return is_one
