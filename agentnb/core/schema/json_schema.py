"""JSON Schemas that come from outside, and values checked against them: the only module that knows the validator.

The validator is `jsonschema_rs`, which loads in about 10 ms. The package `jsonschema` imports every checker of a format that is
installed, which takes seconds beside JupyterLab. No schema can make agentnb fetch anything: the validator is always offline.
"""

from __future__ import annotations

import datetime
import re
import uuid
from collections.abc import Callable, Iterator
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from agentnb.core.messages import encodable, encodable_data
from agentnb.core.schema.addresses import is_email, is_uri
from agentnb.core.schema.nesting import MAX_DEPTH, is_too_deep
from agentnb.errors import SettingsError

if TYPE_CHECKING:
    from jsonschema_rs import Draft202012Validator, ValidationError

MAX_OF_A_PROBLEM = 300
"""Maximum characters of one sentence about a value."""
MAX_BACKTRACKS = 100_000
"""Maximum backtracking steps of a pattern with lookarounds or backreferences; all others take linear time."""
_FORMATS = {
    "date": datetime.date,
    "date-time": datetime.datetime,
    "time": datetime.time,
    "duration": datetime.timedelta,
    "uuid": uuid.UUID,
}
_ADDRESSES = {"email": is_email, "uri": is_uri}
"""The formats that are checked, with `_FORMATS`: always these, whatever else is installed."""


_OTHER_FORMATS = (
    *("idn-email", "hostname", "idn-hostname", "ipv4", "ipv6", "uri-reference", "iri", "iri-reference"),
    *("uri-template", "json-pointer", "relative-json-pointer", "regex"),
)
"""The formats that the validator knows and that stay annotations."""
FORMATS_IN_WORDS = {
    "email": "an e-mail address",
    "uri": "an address such as https://example.org",
    "date": "a date such as 2026-07-28",
    "date-time": "a date and time such as 2026-07-28T09:30:00Z",
    "time": "a time such as 09:30:00Z",
}
"""The formats that a person or a model is asked for, in words."""
_MISSING = re.compile(r"(?P<local>Pointer |Anchor )?[^']*'(?P<name>[^']*)'")


class SchemaError(NamedTuple):
    """One thing that is wrong with a value: where, in words, and the keyword of the schema that it breaks."""

    where: tuple[str | int, ...]
    message: str
    keyword: str
    unexpected: tuple[str, ...] = ()
    """Properties that the schema does not allow, if that is what is wrong."""

    @property
    def sentence(self) -> str:
        """The message behind its place; cut if it is long."""
        where = ".".join(map(str, self.where))
        return cut(f"{where}: {self.message}" if where else self.message)


class UnusableSchema(ValueError):
    """A schema that no value can be checked against."""


def checked_schema(schema: Any, what: str, example: str) -> dict[str, Any]:
    """Return the JSON Schema as plain data; raise `SettingsError` if it is not one, or if it refers to what is not in it.

    ``what`` names it in the error, ``example`` is the hint.
    """
    plain: dict[str, Any] = plain_data(schema)
    try:
        _validator(plain)
    except ValueError as error:
        if missing := _missing_reference(error):
            raise SettingsError(f"{what} refers to {missing}, which is not in it", "Put it below $defs") from error
        words = cut(getattr(error, "message", str(error)))
        raise SettingsError(f"{what} is not a JSON Schema: {words}", example) from error
    return plain


def schema_errors(schema: dict[str, Any], value: Any, *, formats: bool = False) -> list[SchemaError]:
    """Return all that is wrong with plain data; raises `UnusableSchema`.

    ``formats``: check dates, times, UUIDs, and e-mail and web addresses.
    """
    try:
        return [_told(_nearest(error)) for error in _validator(schema, formats=formats).iter_errors(value)]
    except (ValueError, TypeError) as error:  # a log from elsewhere may hold anything as its schema
        if missing := _missing_reference(error):
            raise UnusableSchema(f"its schema refers to {missing}, which is not in it") from error
        words = cut(f"{type(error).__name__}: {getattr(error, 'message', error)}")
        raise UnusableSchema(f"its schema cannot be used ({words})") from error


def schema_problems(schema: dict[str, Any], value: Any, *, formats: bool = False) -> Iterator[str]:
    """Yield what is wrong with plain data, one sentence each; nothing if it fits. ``formats`` as in `schema_errors`."""
    try:
        yield from [error.sentence for error in schema_errors(schema, value, formats=formats)]
    except UnusableSchema as error:
        yield str(error)


@lru_cache(maxsize=256)
def _pattern(pattern: str) -> Draft202012Validator:
    from jsonschema_rs import Draft202012Validator, FancyRegexOptions

    options = FancyRegexOptions(backtrack_limit=MAX_BACKTRACKS)
    return Draft202012Validator({"pattern": pattern}, offline=True, pattern_options=options)


def is_pattern(pattern: str) -> bool:
    """Return whether a text is a regular expression in the dialect of JSON Schema's ``pattern``."""
    try:
        _pattern(pattern)
    except ValueError:
        return False
    return True


def matches(pattern: str, text: str) -> bool:
    """Return whether a pattern from a file occurs in a text. Its time is bounded, unlike that of `re`."""
    return bool(_pattern(pattern).is_valid(encodable(text)))


def _validator(schema: dict[str, Any], *, formats: bool = False) -> Draft202012Validator:
    try:
        text = msgspec.json.encode(schema)
    except (TypeError, ValueError, RecursionError):
        return _made(schema, formats=formats)
    return _validator_of(text, formats=formats)


@lru_cache(maxsize=64)
def _validator_of(schema: bytes, *, formats: bool) -> Draft202012Validator:
    return _made(msgspec.json.decode(schema), formats=formats)


def _made(schema: Any, *, formats: bool) -> Draft202012Validator:
    from jsonschema_rs import Draft202012Validator

    return Draft202012Validator(schema, offline=True, validate_formats=formats, formats=_formats() if formats else None)


def _missing_reference(error: Exception) -> str:
    """Return the reference that the schema does not hold, if that is what is wrong with it."""
    from jsonschema_rs import ValidationError, ValidationErrorKind

    if not isinstance(error, ValidationError) or not isinstance(error.kind, ValidationErrorKind.Referencing):
        return ""
    found = _MISSING.match(error.message)
    if found is None:
        return cut(error.message)
    return f"#{found['name']}" if found["local"] else found["name"]


def _nearest(error: ValidationError) -> ValidationError:
    """Return, of several alternatives, what is wrong with the likeliest: the deepest problem, if there is one deepest."""
    while alternatives := getattr(error.kind, "context", None):
        ranked = sorted([each for errors in alternatives for each in errors], key=_rank)
        if not ranked or (len(ranked) > 1 and _rank(ranked[0]) == _rank(ranked[1])):
            break
        error = ranked[0]
    return error


def _rank(error: ValidationError) -> tuple[int, bool, bool]:
    return -len(error.instance_path), error.kind.name == "type", error.kind.name in ("anyOf", "oneOf")


def _told(error: ValidationError) -> SchemaError:
    message = error.message
    if (options := getattr(error.kind, "options", None)) is not None:  # the library names only some of them
        message = f"{_as_json(error.instance)} is not one of {', '.join(map(_as_json, options))}"
    if (wanted := FORMATS_IN_WORDS.get(getattr(error.kind, "format", ""))) is not None:
        message = f"{_as_json(error.instance)} is not {wanted}"
    if error.kind.name == "required":
        message = f"{_as_json(getattr(error.kind, 'property', ''))} is missing"
    return SchemaError(tuple(error.instance_path), message, error.kind.name, tuple(getattr(error.kind, "unexpected", ())))


def _as_json(value: Any) -> str:
    return msgspec.json.encode(value).decode()


def plain_data(value: Any, what: str = "That") -> Any:
    """Return the value as JSON holds it; raise `SettingsError` if JSON cannot hold it. ``what`` names it."""
    if isinstance(value, str):
        return encodable(value)
    if is_too_deep(value):
        why = f"it is nested deeper than {MAX_DEPTH} levels"
        raise SettingsError(f"{what} cannot be written as JSON ({why})", "Write what is deep as JSON text in one string")
    try:
        try:
            encoded = msgspec.json.encode(value)
        except UnicodeEncodeError:  # half characters, which are rare
            encoded = msgspec.json.encode(encodable_data(value))
        return msgspec.json.decode(encoded)
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        words = encodable(cut(f"{type(error).__name__}: {error}"))
        raise SettingsError(f"{what} cannot be written as JSON ({words})", "Give texts, numbers, lists and dicts") from error


def cut(text: str) -> str:
    """Cut the middle out of a long text: the library repeats the whole value, and its own words come at the end."""
    half = MAX_OF_A_PROBLEM // 2
    return text if len(text) <= MAX_OF_A_PROBLEM else f"{text[:half]} … {text[-half:]}"


@cache
def _formats() -> dict[str, Callable[[str], bool]]:
    read = {name: _reader(kind) for name, kind in _FORMATS.items()}
    return {**dict.fromkeys(_OTHER_FORMATS, lambda _: True), **read, **_ADDRESSES}


def _reader(kind: type) -> Callable[[str], bool]:
    def is_one(text: str) -> bool:
        try:
            msgspec.convert(text, kind)
        except msgspec.ValidationError:
            return False
        return True

    return is_one
