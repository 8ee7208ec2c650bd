"""The value of a filled form, with the problems of each field."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from agentnb.core.messages import JsonObject, encodable
from agentnb.core.schema.form_fields import EMPTY, WHOLE, FormField, form_fields, leaves
from agentnb.core.schema.json_schema import UnusableSchema, cut, json_of, schema_errors, schema_problems
from agentnb.core.schema.nesting import is_too_deep

NEEDED = "A value is required"
MAX_DIGITS = 400
_LEFT_OUT = object()


class FilledForm(NamedTuple):
    """The value of a form. Valid for the schema if there are no problems."""

    value: Any
    problems: Mapping[str, str]
    """Problems by field key; the empty key holds the problems of the value as a whole."""


def filled_form(schema: Any, initial: Any, texts: Mapping[str, str]) -> FilledForm:
    """Build the value of a form for this schema from the typed text.

    ``initial``: the initial value; ``texts``: the typed text, by field key. A field that is missing, or has its initial text,
    keeps its value exactly. An empty field is omitted if the schema allows it, or is the empty string if the key with `EMPTY`
    has any text.
    """
    fields = form_fields(schema, initial)
    problems: dict[str, str] = {}
    if fields[0].key == WHOLE:
        value = _value(fields[0], initial, texts, problems)
        value = {} if value is _LEFT_OUT else value
    else:
        value = _object(fields, {} if initial is None else initial, texts, problems)
    if not problems:
        problems |= _misfits(schema, value, fields)
    return FilledForm(value, problems)


def field_problem(field: FormField, initial: Any, texts: Mapping[str, str]) -> str:
    """Return the problem of a single field's text, regardless of other fields; empty if valid.

    ``initial``: the initial value of the field; ``texts``: as for `filled_form`.
    """
    problems: dict[str, str] = {}
    value = _value(field, initial, texts, problems)
    if problems or value is _LEFT_OUT or (value is None and field.may_be_null):
        return problems.get(field.key, "")
    return next(schema_problems(field.schema, value), "")


def _object(
    fields: Sequence[FormField], initial: Mapping[str, Any], texts: Mapping[str, str], problems: dict[str, str]
) -> JsonObject:
    value: JsonObject = {}
    for field in fields:
        if field.is_others:
            _add_others(value, fields, field, initial, texts, problems)
            continue
        name = field.path[-1]
        part = initial.get(name)
        typed = _group(field, part, texts, problems) if field.kind == "group" else _value(field, part, texts, problems)
        if typed is not _LEFT_OUT:
            value[name] = typed
    return value


def _group(field: FormField, initial: Any, texts: Mapping[str, str], problems: dict[str, str]) -> Any:
    """Return the value of a group of fields; an optional group without input is omitted."""
    is_needed = field.is_required or field.has_value
    group_problems: dict[str, str] = {}
    value = _object(field.fields, initial if isinstance(initial, dict) else {}, texts, group_problems)
    if not is_needed and not any(_is_filled(leaf, texts) for leaf in leaves(field.fields)):
        return _LEFT_OUT
    problems |= group_problems
    return value


def _is_filled(field: FormField, texts: Mapping[str, str]) -> bool:
    text = texts.get(field.key, "")
    is_empty = not text or (field.kind == "choices" and text == "[]")
    return not is_empty or bool(texts.get(f"{field.key}.{EMPTY}"))


def _value(field: FormField, initial: Any, texts: Mapping[str, str], problems: dict[str, str]) -> Any:
    text = encodable(texts.get(field.key, field.text)).replace("\r\n", "\n")
    if field.may_be_empty and not text:
        is_wanted = texts.get(f"{field.key}.{EMPTY}", "yes" if initial == "" else "")
        if is_wanted or initial == "":
            return "" if is_wanted else _LEFT_OUT
    if text == field.text and field.has_value:
        return initial
    if not text.strip():
        return _empty(field, text, problems)
    return text if field.kind in ("text", "lines") else _parse_typed(field, text, problems)


def _parse_typed(field: FormField, text: str, problems: dict[str, str]) -> Any:
    """Return the value of a field other than free text."""
    value = _read(text)
    if field.kind == "choice":
        return _accept_if(value, any(text == option.text for option in field.options), "Choose one of these", field, problems)
    if field.kind == "choices":
        return _parse_choices(value, field, problems)
    if field.kind == "json":
        return _accept_if(value, value is not _LEFT_OUT, "Enter valid JSON", field, problems)
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    words = "Enter a whole number" if field.kind == "integer" else "Enter a number"
    return _accept_if(value, is_number and len(text) <= MAX_DIGITS, words, field, problems)


def _parse_choices(value: Any, field: FormField, problems: dict[str, str]) -> Any:
    """Return the selected choices; an optional field without a selection or a value is omitted."""
    options = {option.text for option in field.options}
    is_right = isinstance(value, list) and all(json_of(choice) in options for choice in value)
    if value == [] and not (field.is_required or field.has_value):
        return _LEFT_OUT
    return _accept_if(value, is_right, "Choose from the list", field, problems)


def _empty(field: FormField, text: str, problems: dict[str, str]) -> Any:
    is_text = field.kind in ("text", "lines")
    if is_text and text:
        return text  # whitespace
    if not field.is_required:
        return _LEFT_OUT
    if field.may_be_null:
        return None
    if is_text and field.has_value:
        return ""
    if field.kind == "choices":
        return []
    problems[field.key] = NEEDED
    return _LEFT_OUT


def _accept_if(value: Any, is_right: bool, words: str, field: FormField, problems: dict[str, str]) -> Any:
    if is_right:
        return value
    problems[field.key] = words
    return _LEFT_OUT


def _read(text: str) -> Any:
    """Parse JSON text; return `_LEFT_OUT` if it is invalid or has a value that a log cannot hold."""
    try:
        value = msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError):
        return _LEFT_OUT
    return _LEFT_OUT if is_too_deep(value) else value


def _add_others(
    value: JsonObject,
    fields: Sequence[FormField],
    field: FormField,
    initial: Mapping[str, Any],
    texts: Mapping[str, str],
    problems: dict[str, str],
) -> None:
    """Add properties that have no separate field: the initial ones, or those typed as a JSON object."""
    own_names = {sibling.path[-1] for sibling in fields if not sibling.is_others}
    kept = {name: item for name, item in initial.items() if name not in own_names}
    others = _value(field, kept, texts, problems)
    if others is _LEFT_OUT:
        return
    if not isinstance(others, dict):
        problems[field.key] = "Enter a JSON object"
    elif duplicates := own_names & others.keys():
        problems[field.key] = f"{min(duplicates)} has its own field above"
    else:
        value |= others


def _misfits(schema: Any, value: Any, fields: Sequence[FormField]) -> dict[str, str]:
    """Return the problems of a value, by the key of the nearest field."""
    everywhere = WHOLE if fields[0].key == WHOLE else ""
    try:
        errors = schema_errors(schema, value, formats=True)
    except UnusableSchema as unusable:
        return {everywhere: str(unusable)}
    problems: dict[str, str] = {}
    for error in errors:
        field = _nearest(fields, error.where)
        is_inside = field is not None and len(error.where) > len(field.path)
        words = error.sentence if field is None or is_inside or field.is_others else cut(error.message)
        problems.setdefault(field.key if field is not None else everywhere, words)
    return problems


def _nearest(fields: Sequence[FormField], where: Sequence[str | int]) -> FormField | None:
    """Return the field that contains this position."""
    enclosing = [leaf for leaf in leaves(fields) if leaf.key != WHOLE and leaf.path == tuple(where[: len(leaf.path)])]
    own = [leaf for leaf in enclosing if not leaf.is_others]
    return max(own or enclosing, key=lambda each: len(each.path), default=None)
