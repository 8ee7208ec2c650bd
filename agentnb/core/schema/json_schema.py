"""Untrusted JSON Schemas, and validation against them: the only module that uses the validator.

The validator is `jsonschema_rs`, which loads in about 10 ms. The package `jsonschema` imports every installed format checker,
which takes seconds beside JupyterLab. No schema can make agentnb fetch anything: the validator is always offline.
"""

from __future__ import annotations

import datetime
import re
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from agentnb.core.messages import JsonObject, encodable, encodable_data
from agentnb.core.schema.nesting import MAX_DEPTH, is_too_deep
from agentnb.core.schema.references import SCHEMAS_BY_NAME, part_at
from agentnb.core.schema.web_addresses import is_email, is_uri
from agentnb.errors import SettingsError

if TYPE_CHECKING:
    from jsonschema_rs import Draft202012Validator, ValidationError

MAX_STEPS = 1_000
"""Number of steps up to which a schema is quick to check for any value, so that individual values need not be measured; a
self-referential schema always exceeds it."""
MAX_STEPS_OF_VALUE = 50_000
_ANY = object()
"""An unknown value: it may have every property and item."""
_OF_THE_SAME = ("allOf", "anyOf", "oneOf", "not", "if", "then", "else", "dependentSchemas")
"""Keywords whose schemas apply to the same value."""
_OF_PARTS: dict[type, tuple[str, ...]] = {
    dict: ("patternProperties", "additionalProperties", "unevaluatedProperties"),
    list: ("prefixItems", "items", "contains", "unevaluatedItems"),
}
"""Keywords whose schemas apply to the properties or items of a value, here treated as applying to all of them."""
_REFERENCES = ("$ref", "$dynamicRef")
_ANNOTATIONS = (
    "$comment",
    "$schema",
    "default",
    "deprecated",
    "description",
    "examples",
    "format",
    "readOnly",
    "title",
    "writeOnly",
)
_ALL_WITHIN = (*_OF_THE_SAME, *_OF_PARTS[dict], *_OF_PARTS[list], "properties", "propertyNames", "$defs", "definitions")
_METASCHEMA = re.compile(r"https?://json-schema\.org/")


def takes_too_long(schema: Any, value: Any = _ANY, most: int = MAX_STEPS) -> bool:
    """True if checking a value takes more than ``most`` steps; without a value, True if checking some value might."""
    todo, unbranched = [(schema, value)], set[tuple[int, int]]()
    for _ in range(most):
        if not todo:
            return False
        part, instance = todo.pop()
        if not todo:  # reached without branching: the validator ends such a loop
            if (id(part), id(instance)) in unbranched:
                return False
            unbranched.add((id(part), id(instance)))
        if isinstance(part, dict):
            todo += _applied_schemas(part, schema, instance)
    return True


def _applied_schemas(part: JsonObject, root: Any, value: Any) -> Iterator[tuple[Any, Any]]:
    """Yield each subschema that a schema applies, with the value it applies to."""
    for key in _REFERENCES:
        if key in part:
            yield _resolve_reference(part[key], root), value
    yield from ((subschema, value) for key in _OF_THE_SAME for subschema in _schemas(part, key))
    if value is _ANY:
        keys = ("properties", *_OF_PARTS[dict], *_OF_PARTS[list])
        yield from ((subschema, _ANY) for key in keys for subschema in _schemas(part, key))
        return
    parts = value.values() if isinstance(value, dict) else value
    yield from (
        (schema, subschema) for key in _OF_PARTS.get(type(value), ()) for schema in _schemas(part, key) for subschema in parts
    )
    if isinstance(value, dict) and isinstance(declared := part.get("properties"), dict):
        yield from ((declared[name], subschema) for name, subschema in value.items() if name in declared)


def _schemas(part: JsonObject, key: str) -> Iterable[Any]:
    """Return the subschemas under a keyword."""
    value = part.get(key, ())
    if key in SCHEMAS_BY_NAME:
        return value.values() if isinstance(value, dict) else ()
    return value if isinstance(value, list | tuple) else (value,)


def _resolve_reference(reference: Any, root: Any) -> Any:
    """Return the target of a reference; a reference to another address is treated like a circular one."""
    address, _, fragment = str(reference).partition("#")
    if address and not (isinstance(root, dict) and address == root.get("$id")):
        return True if _METASCHEMA.match(address) else {"allOf": [root, root], "$ref": reference}
    return part_at(fragment, root)


MAX_OF_A_PROBLEM = 300
"""Maximum number of characters in a sentence about a value."""
MAX_BACKTRACKS = 100_000
"""Maximum number of backtracking steps for a pattern with lookarounds or backreferences; all others take linear time."""
MAX_PATTERN_BYTES = 300_000
"""Maximum memory of a compiled pattern in an untrusted schema; about 3 ms."""
MAX_REPAIRS = 100
"""Maximum number of translated or dropped keywords in an untrusted schema."""
_LIMITS = {"exclusiveMinimum": "minimum", "exclusiveMaximum": "maximum"}
_JAVASCRIPT = re.compile(
    r"(?P<in_range>\\[dDsSwW])-(?!\])|\\[pPu]\{[^}]*\}|\\.|(?P<any>\[\^\])|(?P<brace>\{)(?!\d+(?:,\d*)?\})"
)
r"""Parts of a pattern; the named ones differ between JavaScript and the validator: a class as the start of a range, as in
``[\w-.]``, any character, ``[^]``, and a brace without a repetition."""
_FORMATS = {
    "date": datetime.date,
    "date-time": datetime.datetime,
    "time": datetime.time,
    "duration": datetime.timedelta,
    "uuid": uuid.UUID,
}
_ADDRESSES = {"email": is_email, "uri": is_uri}
"""The formats that are checked in addition to `_FORMATS`: always the same, whatever else is installed."""


_OTHER_FORMATS = (
    *("idn-email", "hostname", "idn-hostname", "ipv4", "ipv6", "uri-reference", "iri", "iri-reference"),
    *("uri-template", "json-pointer", "relative-json-pointer", "regex"),
)
"""Formats that the validator supports, but that are not checked."""
FORMATS_IN_WORDS = {
    "email": "an e-mail address",
    "uri": "an address such as https://example.org",
    "date": "a date such as 2026-07-28",
    "date-time": "a date and time such as 2026-07-28T09:30:00Z",
    "time": "a time such as 09:30:00Z",
}
"""Descriptions of formats for people and models."""
_MISSING = re.compile(r"(?P<local>Pointer |Anchor )?[^']*'(?P<name>[^']*)'")


class SchemaError(NamedTuple):
    """A problem with a value: its position, a message, and the violated keyword of the schema."""

    where: tuple[str | int, ...]
    message: str
    keyword: str
    unexpected: tuple[str, ...] = ()
    """The properties that the schema does not allow, if that is the problem."""

    @property
    def sentence(self) -> str:
        """The message after its position; shortened if long."""
        location = ".".join(map(str, self.where))
        return cut(f"{location}: {self.message}" if location else self.message)


class UnusableSchema(ValueError):
    """A schema that cannot be used for validation."""


def check_schema(schema: Any, what: str, example: str) -> JsonObject:
    """Return the JSON Schema as plain data. Raises `SettingsError` for an invalid schema or an unresolved reference.

    ``what`` names it in the error, ``example`` is the hint.
    """
    plain: JsonObject = plain_data(schema)
    try:
        _checker(plain)
    except ValueError as error:
        if missing := _missing_reference(error):
            raise SettingsError(f"{what} refers to {missing}, which it does not define", "Define it under $defs") from error
        words = cut(getattr(error, "message", str(error)))
        raise SettingsError(f"{what} is not a JSON Schema: {words}", example) from error
    return plain


def schema_errors(schema: JsonObject, value: Any, *, formats: bool = False) -> list[SchemaError]:
    """Return all problems of plain data. Raises `UnusableSchema`.

    ``formats``: check dates, times, UUIDs, and e-mail and web addresses.
    """
    errors = _errors(schema, value, formats=formats)
    if errors is None:
        return [SchemaError((), "it does not match the schema; finding the mismatch would take too long", "")]
    return [_schema_error(_nearest(error)) for error in errors]


def integer_places(schema: Any, value: Any) -> set[tuple[str, ...]]:
    """Return the positions at which the schema, or one of its alternatives, refuses the value and accepts an integer."""
    places, remaining = set[tuple[str, ...]](), _errors(schema, value) or []
    while remaining:
        error = remaining.pop()
        kind: Any = error.kind
        remaining += [inner for errors in getattr(kind, "context", ()) for inner in errors]
        accepted = [*getattr(kind, "types", ()), *getattr(kind, "options", ()), getattr(kind, "expected_value", None)]
        if "integer" in accepted or any(type(item) is int for item in accepted):
            places.add(tuple(map(str, error.instance_path)))
    return places


def _errors(schema: Any, value: Any, *, formats: bool = False) -> list[ValidationError] | None:
    """Return the errors of a value, or None if it does not fit but locating the problem would take longer than checking it."""
    try:
        checker = _checker(schema, formats=formats)
        if not checker.is_quick and takes_too_long(schema, value, MAX_STEPS_OF_VALUE):
            raise UnusableSchema("its schema is too complex to check this value")
        if checker.validator.is_valid(value):
            return []
        is_slow = checker.is_quick and takes_too_long(schema, value, MAX_STEPS_OF_VALUE)  # checked above for the others
        return None if is_slow else [*checker.validator.iter_errors(value)]
    except (ValueError, TypeError) as error:  # a foreign log may contain any schema
        raise _unusable(error) from error


class ReadSchema(NamedTuple):
    """An untrusted schema in the form that the validator accepts."""

    schema: JsonObject
    left_out: tuple[str, ...] = ()
    """Positions of unreadable keywords, such as ``properties.q.pattern``, which are not checked."""


def usable_schema(schema: JsonObject) -> ReadSchema:
    """Translate earlier drafts in an untrusted schema and drop unreadable keywords.

    Raises `UnusableSchema`.
    """
    from jsonschema_rs import FancyRegexOptions, ValidationError

    plain: JsonObject = msgspec.json.decode(msgspec.json.encode(schema))
    _translate_ignored(plain)
    options = FancyRegexOptions(size_limit=MAX_PATTERN_BYTES)
    left_out = dict[str, None]()
    for _ in range(MAX_REPAIRS):
        try:
            _make_validator(plain, pattern_options=options)
            return ReadSchema(plain, tuple(left_out))
        except ValidationError as error:
            missing = _missing_reference(error)
            for path in _references(plain, missing) if missing else [error.instance_path]:
                if not _repair(plain, path):
                    left_out[".".join(map(str, path))] = None
        except ValueError as error:
            raise _unusable(error) from error
    raise UnusableSchema("its schema has too many unreadable keywords")


def _translate_ignored(part: Any) -> None:
    """Translate keywords of earlier drafts that the validator ignores, in a schema and its subschemas."""
    if not isinstance(part, dict):
        return
    if isinstance(needed := part.get("dependencies"), dict):
        del part["dependencies"]
        names = {
            name: [subschema] if isinstance(subschema, str) else subschema
            for name, subschema in needed.items()
            if isinstance(subschema, str | list)
        }
        schemas = {name: subschema for name, subschema in needed.items() if name not in names}
        part.update(
            {key: subschema for key, subschema in (("dependentRequired", names), ("dependentSchemas", schemas)) if subschema}
        )
    if part.get("nullable") is True and isinstance(part.get("type"), str):  # from OpenAPI
        part["type"] = [part["type"], "null"]
        part.update({"enum": [*part["enum"], None]} if isinstance(part.get("enum"), list) else {})
    if "$recursiveRef" in part:
        part["$ref"] = part.pop("$recursiveRef")
    for subschema in (subschema for key in _ALL_WITHIN for subschema in _schemas(part, key)):
        _translate_ignored(subschema)


def _references(value: Any, reference: str, path: tuple[str | int, ...] = ()) -> list[tuple[str | int, ...]]:
    """Return the paths of the keywords with this reference."""
    parts = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    nested_paths = [path_ for key, part in parts for path_ in _references(part, reference, (*path, key))]
    own_paths = [(*path, key) for key in _REFERENCES if value.get(key) == reference] if isinstance(value, dict) else []
    return [*nested_paths, *own_paths]


def _names_in(value: list[Any]) -> list[str]:
    return [*dict.fromkeys(name for name in value if isinstance(name, str))]


def _repair(schema: Any, path: Sequence[str | int]) -> bool:
    """Translate the keyword at this path, or drop it. Returns True if the meaning is unchanged."""
    if not path:
        raise UnusableSchema("its schema is not an object")
    *parents, keyword = path
    for step in parents:
        schema = schema[_key(schema, step)]
    value = schema.pop(_key(schema, keyword))
    keyword = "" if parents and parents[-1] in SCHEMAS_BY_NAME else keyword  # a property name, not a keyword
    limit = _LIMITS.get(str(keyword))
    if value is True and limit in schema:
        schema[keyword] = schema.pop(limit)
    elif keyword == "items" and isinstance(value, list):
        schema["prefixItems"] = value
        schema.update({"items": schema.pop("additionalItems")} if "additionalItems" in schema else {})
    elif keyword == "pattern" and isinstance(value, str):
        readable = _JAVASCRIPT.sub(_translate, value)
        schema.update({"pattern": readable} if readable != value else {})
        return readable != value
    elif keyword == "required" and isinstance(value, list) and len(names := _names_in(value)) < len(value):
        schema[keyword] = names
    elif keyword == "type" and isinstance(value, str) and value != value.lower():
        schema[keyword] = value.lower()
    elif keyword == "$id" and isinstance(value, str) and value.startswith("#"):
        schema["$anchor"] = value[1:]
    else:
        return not value or keyword in _ANNOTATIONS
    return True


def _translate(part: re.Match[str]) -> str:
    """Translate a part of a JavaScript pattern for the validator."""
    if part["any"]:
        return r"[\s\S]"
    return f"{part['in_range']}\\-" if part["in_range"] else r"\{" if part["brace"] else part[0]


def _key(within: Any, step: str | int) -> str | int:
    """Return the key or index for a step of a path: the library reports numeric names as indices."""
    return str(step) if isinstance(within, dict) else step


def _unusable(error: Exception) -> UnusableSchema:
    if isinstance(error, UnusableSchema):
        return error
    if missing := _missing_reference(error):
        return UnusableSchema(f"its schema refers to {missing}, which it does not define")
    words = cut(f"{type(error).__name__}: {getattr(error, 'message', error)}")
    return UnusableSchema(f"its schema cannot be used ({words})")


def schema_problems(schema: JsonObject, value: Any) -> Iterator[str]:
    """Yield one sentence for each violation of the schema in plain data, including its formats."""
    try:
        yield from [error.sentence for error in schema_errors(schema, value, formats=True)]
    except UnusableSchema as error:
        yield str(error)


@lru_cache(maxsize=256)
def _pattern(pattern: str) -> Draft202012Validator:
    from jsonschema_rs import Draft202012Validator, FancyRegexOptions

    options = FancyRegexOptions(backtrack_limit=MAX_BACKTRACKS)
    return Draft202012Validator({"pattern": pattern}, offline=True, pattern_options=options)


def is_pattern(pattern: str) -> bool:
    """True if the text is a regular expression in the dialect of JSON Schema's ``pattern``."""
    try:
        _pattern(pattern)
    except ValueError:
        return False
    return True


def matches(pattern: str, text: str) -> bool:
    """Search text for a pattern from a file. Unlike `re`, this takes a bounded time."""
    return bool(_pattern(pattern).is_valid(encodable(text)))


class _Checker(NamedTuple):
    validator: Draft202012Validator
    is_quick: bool
    """True if checking takes a bounded number of steps for any value."""


def _checker(schema: JsonObject, *, formats: bool = False) -> _Checker:
    try:
        text = msgspec.json.encode(schema)
    except (TypeError, ValueError, RecursionError):
        return _Checker(_make_validator(schema, formats=formats), False)
    return _checker_of(text, formats=formats)


@lru_cache(maxsize=64)
def _checker_of(text: bytes, *, formats: bool) -> _Checker:
    schema = msgspec.json.decode(text)
    return _Checker(_make_validator(schema, formats=formats), not takes_too_long(schema))


def _make_validator(schema: Any, *, formats: bool = False, **options: Any) -> Draft202012Validator:
    from jsonschema_rs import Draft202012Validator

    checks = _formats() if formats else None
    return Draft202012Validator(schema, offline=True, validate_formats=formats, formats=checks, **options)


def _missing_reference(error: Exception) -> str:
    """Return the reference that cannot be resolved, if that is what is wrong with the schema."""
    from jsonschema_rs import ValidationError, ValidationErrorKind

    if not isinstance(error, ValidationError) or not isinstance(error.kind, ValidationErrorKind.Referencing):
        return ""
    match = _MISSING.match(error.message)
    if match is None:
        return cut(error.message)
    return f"#{match['name']}" if match["local"] else match["name"]


def _nearest(error: ValidationError) -> ValidationError:
    """Return the error of the most likely alternative: the deepest error, if only one is that deep."""
    while alternatives := getattr(error.kind, "context", None):
        ranked = sorted([inner for errors in alternatives for inner in errors], key=_rank)
        if not ranked or (len(ranked) > 1 and _rank(ranked[0]) == _rank(ranked[1])):
            break
        error = ranked[0]
    return error


def _rank(error: ValidationError) -> tuple[int, bool, bool]:
    return -len(error.instance_path), error.kind.name == "type", error.kind.name in ("anyOf", "oneOf")


def _schema_error(error: ValidationError) -> SchemaError:
    message = error.message
    if (options := getattr(error.kind, "options", None)) is not None:  # the library names only some of the options
        message = f"{json_of(error.instance)} is not one of {', '.join(map(json_of, options))}"
    if (description := FORMATS_IN_WORDS.get(getattr(error.kind, "format", ""))) is not None:
        message = f"{json_of(error.instance)} is not {description}"
    if error.kind.name == "required":
        message = f"{json_of(getattr(error.kind, 'property', ''))} is missing"
    return SchemaError(tuple(error.instance_path), message, error.kind.name, tuple(getattr(error.kind, "unexpected", ())))


def json_of(value: Any) -> str:
    """Return a value as JSON."""
    return msgspec.json.encode(value).decode()


def plain_data(value: Any, what: str = "That") -> Any:
    """Convert the value to JSON data. Raises `SettingsError` if impossible. ``what`` names the value in the error."""
    if isinstance(value, str):
        return encodable(value)
    if is_too_deep(value):
        detail = f"it is nested deeper than {MAX_DEPTH} levels"
        raise SettingsError(f"{what} cannot be written as JSON ({detail})", "Encode the deep part as a JSON string")
    try:
        try:
            encoded = msgspec.json.encode(value)
        except UnicodeEncodeError:  # lone surrogates, which are rare
            encoded = msgspec.json.encode(encodable_data(value))
        return msgspec.json.decode(encoded)
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        words = encodable(cut(f"{type(error).__name__}: {error}"))
        raise SettingsError(f"{what} cannot be written as JSON ({words})", "Use strings, numbers, lists and dicts") from error


def cut(text: str) -> str:
    """Cut out the middle of a long message, because the library quotes the entire value before its own words."""
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
