"""The fields of a form for a JSON Schema of objects, with their initial values.

Forms are bounded for any schema: a part without its own field is entered as JSON.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, TypeAlias

import msgspec

from agentnb.core.messages import JsonObject, encodable
from agentnb.core.schema.json_schema import json_of, schema_problems
from agentnb.core.schema.references import resolve

FieldKind: TypeAlias = Literal["text", "lines", "integer", "number", "choice", "choices", "json", "group"]
"""Kinds of fields: a line of text, several lines, numbers, one of several choices, several of them, JSON, or an object with
its own fields."""
MAX_FIELDS = 40
"""Maximum number of fields in a form; an object with more becomes a single JSON field."""
MAX_LEVELS = 3
MAX_OPTIONS = 100
MAX_NAME_CHARACTERS = 100
MAX_DEFAULT_CHARACTERS = 2_000
"""Maximum length of a default used as an initial value."""
LONG_TEXT = 60
"""Number of characters above which text gets a multi-line field."""
WHOLE = "whole"
"""Key of the single field in an undivided form."""
OTHERS = "other"
"""Last part of the key of the field that holds properties not named in the schema."""
EMPTY = "empty"
"""Last part of a flag's key. The flag turns an empty field into the empty string, instead of omitting the field."""
_ABSENT = object()


class Option(NamedTuple):
    """A choice of a field."""

    text: str
    """The choice as JSON, sent by the form."""
    label: str


@dataclass(frozen=True, slots=True)
class FormField:
    """A field of a form with its initial text."""

    key: str
    """Position in the form, such as ``2`` or ``0.1``. Property names may be any text, so a page does not use them as keys."""
    path: tuple[str, ...]
    """The property names that lead to the field's value."""
    kind: FieldKind
    text: str = ""
    is_required: bool = False
    may_be_null: bool = False
    has_value: bool = False
    """True if the initial value includes the field; its value remains unchanged unless edited."""
    label: str = ""
    description: str = ""
    options: tuple[Option, ...] = ()
    limits: tuple[Any, Any] = (None, None)
    """Minimum and maximum of a number, of the length of text, or of the number of choices."""
    format: str = ""
    """The format that text is checked against, such as ``email``."""
    pattern: str = ""
    """The pattern that text must match."""
    may_be_empty: bool = False
    """True if the field may be either omitted or an empty string; a separate flag distinguishes the two."""
    schema: Any = field(default=True, repr=False, compare=False)
    """The schema of the field's value alone."""
    fields: tuple[FormField, ...] = ()

    @property
    def chosen(self) -> tuple[str, ...]:
        """The initially selected choices of a multiple-choice field, in the form of their options' ``text``."""
        return tuple(map(json_of, msgspec.json.decode(self.text))) if self.kind == "choices" and self.text else ()

    @property
    def is_others(self) -> bool:
        """True for the field of properties not named in the schema."""
        return self.key.rpartition(".")[2] == OTHERS


def form_fields(schema: Any, initial: Any = None) -> tuple[FormField, ...]:
    """Return the fields of a form for this schema, filled with the initial value."""
    fields = None
    with suppress(_TooMany):
        fields = _Reader(schema).properties(schema, {} if initial is None else initial)
    if fields is None:
        return (FormField(WHOLE, (), "json", "" if initial is None else as_text(initial), True, has_value=initial is not None),)
    return fields


def leaves(fields: Sequence[FormField]) -> Iterator[FormField]:
    """Yield the editable fields, without their enclosing groups."""
    for field_ in fields:
        if field_.kind == "group":
            yield from leaves(field_.fields)
        else:
            yield field_


def defaults(schema: Any) -> JsonObject:
    """Return the defaults of an object's properties: the initial value of a form if nothing else is known."""
    properties = schema.get("properties") if isinstance(schema, dict) else None
    named = properties.items() if isinstance(properties, dict) else ()
    values = {name: property_["default"] for name, property_ in named if isinstance(property_, dict) and "default" in property_}
    return {name: value for name, value in values.items() if len(as_text(value)) <= MAX_DEFAULT_CHARACTERS}


def as_text(value: Any) -> str:
    """Return a value as JSON, indented if it is long."""
    encoded = msgspec.json.encode(value)
    return (msgspec.json.format(encoded, indent=2) if len(encoded) > LONG_TEXT else encoded).decode()


class _TooMany(Exception):
    """A form exceeds the maximum number of fields."""


class _Reader:
    """Reads the fields of one form."""

    def __init__(self, root: Any) -> None:
        self._root = root
        self._count = 0

    def properties(self, schema: Any, value: Any, path: tuple[str, ...] = (), prefix: str = "") -> tuple[FormField, ...] | None:
        """Return the fields of an object, or None if it cannot be divided into fields. Raises `_TooMany`."""
        declared = schema.get("properties") if isinstance(schema, dict) else None
        is_object = isinstance(declared, dict) and schema.get("type", "object") == "object" and isinstance(value, dict)
        if not is_object or not declared or len(path) >= MAX_LEVELS or not all(map(_is_name, declared)):
            return None
        required = schema.get("required")
        needed = {item for item in required if isinstance(item, str)} if isinstance(required, list) else set()
        fields = []
        for index, (name, item) in enumerate(declared.items()):
            initial = value.get(name, _ABSENT)
            fields.append(self._field(item, initial, (*path, name), f"{prefix}{index}", is_required=name in needed))
        others = {name: item for name, item in value.items() if name not in declared}
        if others or schema.get("additionalProperties") not in (None, False):
            text = as_text(others) if others else ""
            fields.append(FormField(f"{prefix}{OTHERS}", path, "json", text, has_value=bool(others)))
        return tuple(fields)

    def _field(self, given: Any, value: Any, path: tuple[str, ...], key: str, *, is_required: bool) -> FormField:
        self._count += 1
        if self._count > MAX_FIELDS:
            raise _TooMany
        schema, may_be_null = _without_null(resolve(given, self._root), self._root)
        details = _describe(schema, given, path[-1])
        details |= {"is_required": is_required, "may_be_null": may_be_null, "has_value": value is not _ABSENT}
        start = {} if value is _ABSENT else value
        if not may_be_null and (fields := self.properties(schema, start, path, f"{key}.")):
            return FormField(key, path, "group", fields=fields, **details)
        details["schema"] = self._alone(schema)
        if options := _options(schema):
            text = "" if value is _ABSENT else json_of(value)
            return FormField(key, path, "choice", text, options=_with(options, value), **details)
        if (options := _options_of_items(schema, self._root)) and _are_among(value, options):
            text = json_of(value) if isinstance(value, list) else ""
            limits = (_limit(schema, "minItems"), _limit(schema, "maxItems"))
            return FormField(key, path, "choices", text, options=options, limits=limits, **details)
        kind, text = _kind_and_text(schema, value)
        may_be_empty = kind in ("text", "lines") and not is_required and not any(schema_problems(details["schema"], ""))
        return FormField(key, path, kind, text, may_be_empty=may_be_empty, **_limits(schema, kind), **details)

    def _alone(self, schema: Any) -> Any:
        """Return the schema of a field with the definitions that it may reference."""
        if not isinstance(schema, dict) or not isinstance(self._root, dict):
            return schema
        return {**schema, **{name: self._root[name] for name in ("$defs", "definitions") if name in self._root}}


def _describe(schema: Any, given: Any, name: str) -> JsonObject:
    """Return the label and the help text of a field."""
    texts = [source for source in (schema, given) if isinstance(source, dict)]
    title, description = (
        next((source[key] for source in texts if isinstance(source.get(key), str)), "") for key in ("title", "description")
    )
    return {"label": _label(name, title), "description": description}


def _is_name(name: Any) -> bool:
    return isinstance(name, str) and len(name) <= MAX_NAME_CHARACTERS and encodable(name) == name


def _label(name: str, title: str) -> str:
    """Return the title of a field with its name, or only the name if the title adds nothing."""
    return name if title.replace(" ", "_").casefold() in ("", name.casefold()) else f"{title} ({name})"


def _kind_and_text(schema: Any, value: Any) -> tuple[FieldKind, str]:
    """Return the kind of a field, and its value as text: JSON if the value does not fit the schema."""
    named = schema.get("type") if isinstance(schema, dict) else None
    is_empty = value is _ABSENT or value is None
    if named in ("integer", "number") and (is_empty or (isinstance(value, int | float) and not isinstance(value, bool))):
        return named, "" if is_empty else json_of(value)
    if named == "string" and (is_empty or (isinstance(value, str) and not _has_controls(value))):
        text = "" if is_empty else value
        is_long = len(text) > LONG_TEXT or "\n" in text or _limit(schema, "maxLength", 0) > LONG_TEXT
        return "lines" if is_long else "text", text
    return "json", "" if value is _ABSENT else as_text(value)


def _has_controls(text: str) -> bool:
    """True if the text contains characters that a page's input fields drop."""
    return any((char < " " and char != "\n") or char == "\x7f" for char in text)


def _limit(schema: Any, name: str, otherwise: Any = None) -> Any:
    value = schema.get(name)
    return value if isinstance(value, int | float) and not isinstance(value, bool) else otherwise


def _without_null(schema: Any, root: Any) -> tuple[Any, bool]:
    """Return the schema of the non-null values, and True if null is allowed."""
    if not isinstance(schema, dict):
        return schema, False
    kinds = schema.get("type")
    if isinstance(kinds, list) and "null" in kinds and len(kinds) == 2:
        (subschema,) = [kind for kind in kinds if kind != "null"] or ["null"]
        return {**schema, "type": subschema}, True
    for name in ("anyOf", "oneOf"):
        alternatives = schema.get(name)
        if isinstance(alternatives, list) and len(alternatives) == 2 and {"type": "null"} in alternatives:
            subschema = alternatives[1] if alternatives[0] == {"type": "null"} else alternatives[0]
            siblings = {key: kind for key, kind in schema.items() if key != name}
            target = resolve(subschema, root)
            return ({**target, **siblings}, True) if isinstance(target, dict) else (True, True)
    return schema, False


def _options(schema: Any) -> tuple[Option, ...]:
    """Return the choices of a schema that lists its values; empty if it lists none, or too many."""
    if not isinstance(schema, dict):
        return ()
    listed, names = schema.get("enum"), schema.get("enumNames")
    if schema.get("type") == "boolean" and not isinstance(listed, list):
        return (Option("true", "yes"), Option("false", "no"))
    among: list[Any] = next((schema[name] for name in ("oneOf", "anyOf") if isinstance(schema.get(name), list)), [])
    if (
        not isinstance(listed, list)
        and among
        and all(isinstance(alternative, dict) and "const" in alternative for alternative in among)
    ):
        listed, names = [alternative["const"] for alternative in among], [alternative.get("title") for alternative in among]
    if not isinstance(listed, list) and "const" in schema:
        listed = [schema["const"]]
    if not isinstance(listed, list) or not 0 < len(listed) <= MAX_OPTIONS:
        return ()
    labels = names if isinstance(names, list) and len(names) == len(listed) else [None] * len(listed)
    return tuple(Option(json_of(value), str(label or _word(value))) for value, label in zip(listed, labels, strict=True))


def _options_of_items(schema: Any, root: Any) -> tuple[Option, ...]:
    """Return the choices of a multi-select list; empty if its items are something else."""
    items = resolve(schema.get("items"), root) if isinstance(schema, dict) and schema.get("type") == "array" else None
    if not isinstance(items, dict) or items.get("type") == "boolean" or "prefixItems" in schema:
        return ()
    return _options(items)


def _are_among(value: Any, options: tuple[Option, ...]) -> bool:
    """True if a list contains only these choices, each once, or if there is no value yet."""
    if value is _ABSENT or value is None:
        return True
    texts = [json_of(item) for item in value] if isinstance(value, list) else ["none"]
    return len({*texts}) == len(texts) and {*texts} <= {option.text for option in options}


def _limits(schema: Any, kind: FieldKind) -> JsonObject:
    """Return the limits, format and pattern of a field."""
    if kind in ("integer", "number"):
        return {"limits": (_limit(schema, "minimum"), _limit(schema, "maximum"))}
    if kind not in ("text", "lines"):
        return {}
    words = {name: schema[name] for name in ("format", "pattern") if isinstance(schema.get(name), str)}
    return {"limits": (_limit(schema, "minLength"), _limit(schema, "maxLength")), **words}


def _with(options: tuple[Option, ...], value: Any) -> tuple[Option, ...]:
    """Return the choices including the initial value, even if it is not among them."""
    if value is _ABSENT or any(option.text == json_of(value) for option in options):
        return options
    return (*options, Option(json_of(value), _word(value)))


def _word(value: Any) -> str:
    return value if isinstance(value, str) else json_of(value)
