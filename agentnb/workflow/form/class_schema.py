"""JSON Schemas derived from the classes of a file format: their fields and the fields' docstrings."""

from __future__ import annotations

import ast
import inspect
import sys
import types
import typing
from collections.abc import Mapping
from dataclasses import fields
from functools import lru_cache
from itertools import pairwise
from typing import Any

from agentnb.core.messages import JsonObject
from agentnb.policies.run_limits import LIMITS
from agentnb.workflow.form.workflow_spec import key_of
from agentnb.workflow.form.yaml_source import IGNORED

DIALECT = "https://json-schema.org/draft/2020-12/schema"
TEXT: JsonObject = {"type": "string"}
TEXTS: JsonObject = {"anyOf": [TEXT, {"type": "array", "items": TEXT}]}


def object_schema(properties: Mapping[str, Any], required: list[str] | None = None) -> JsonObject:
    """Return the schema of an object with exactly these properties."""
    schema: JsonObject = {"type": "object", "properties": dict(properties), "additionalProperties": False}
    return {**schema, "required": required} if required else schema


def file_schema(title: str, schema: Mapping[str, Any], defs: Mapping[str, Any], **more: Any) -> JsonObject:
    """Return the schema of a file, which also allows user-defined ``x-`` keys. ``more``: further keywords."""
    own_keys = {f"^{IGNORED}": JsonObject()}
    return {"$schema": DIALECT, "title": title, **schema, "patternProperties": own_keys, **more, "$defs": defs}


def properties_of(
    kind: type,
    by_key: Mapping[str, Mapping[str, Any]],
    least: Mapping[str, float] = types.MappingProxyType({}),
    keys: Mapping[str, str] | None = None,
) -> JsonObject:
    """Return the schemas of the keys of one class.

    ``keys``: keys by field name; by default those of the class itself. ``by_key``: schemas of keys that are not written as the
    field types suggest; ``least``: minimum values by key.
    """
    hints = typing.get_type_hints(kind, _names_around(kind))
    schemas: JsonObject = {}
    for name, key in ({field.name: key_of(field) for field in fields(kind)} if keys is None else keys).items():
        if key is None:
            continue
        schema = dict(by_key.get(key) or _of_type(hints[name]))
        if key in least:
            schema["minimum"] = least[key]
        owner = next(base for base in kind.__mro__ if name in inspect.get_annotations(base))
        description = _descriptions(owner.__module__).get((owner.__name__, name))
        schemas[key] = {**schema, "description": " ".join(description.split())} if description else schema
    return schemas


def limits_schema(names: tuple[str, ...], more: Mapping[str, Any] | None = None) -> JsonObject:
    """Return the schema of a mapping with these limits and with ``more`` properties."""
    number, count = {"type": ["number", "null"], "exclusiveMinimum": 0}, {"type": ["integer", "null"], "minimum": 1}
    amounts = {name: {**(number if LIMITS[name].unit else count), "description": LIMITS[name].help} for name in names}
    return object_schema({**amounts, **(more or {})})


def _names_around(kind: type) -> JsonObject:
    names: JsonObject = {}
    for base in reversed(kind.__mro__):
        names |= vars(sys.modules[base.__module__])
    return names


def _of_type(hint: Any) -> JsonObject:
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin is typing.Literal:
        return {"enum": list(arguments)}
    if origin in (typing.Union, types.UnionType):
        return _of_type(next(argument for argument in arguments if argument is not type(None)))
    if origin is tuple:
        return {"type": "array", "items": _of_type(arguments[0])}
    if origin is not None:
        return {"type": "object"}
    return {str: TEXT, bool: {"type": "boolean"}, int: {"type": "integer"}, float: {"type": "number"}}.get(hint, {})


@lru_cache(maxsize=8)
def _descriptions(module: str) -> dict[tuple[str, str], str]:
    """Return the docstrings of fields in a module's source, by class and field; empty if there is no source."""
    try:
        tree = ast.parse(inspect.getsource(sys.modules[module]))
    except OSError:
        return {}
    descriptions: dict[tuple[str, str], str] = {}
    for node in tree.body:
        body = node.body if isinstance(node, ast.ClassDef) else []
        for before, after in pairwise(body):
            if isinstance(before, ast.AnnAssign) and isinstance(before.target, ast.Name) and isinstance(after, ast.Expr):
                descriptions[node.name, before.target.id] = str(ast.literal_eval(after.value))  # type: ignore[attr-defined]
    return descriptions
