"""JSON Schemas of Python types, from msgspec, or from pydantic for its own types."""

from __future__ import annotations

import typing
from collections.abc import Iterator
from typing import Any

import msgspec
from msgspec import inspect

from agentnb.core.schema.json_schema import cut
from agentnb.errors import SettingsError

_NO_SCHEMA = (TypeError, ValueError, RuntimeError, NameError, AttributeError)
"""Errors of the libraries for an unsupported type."""


def schema_of(kind: Any, example: str) -> tuple[dict[str, Any], bool]:
    """Return the JSON Schema of a type, and True if pydantic made it: for its own models, and if msgspec cannot."""
    if kind is None or isinstance(kind, str):
        raise SettingsError(f"output= must be a type or a JSON Schema, got {type(kind).__name__}", example)
    if _is_pydantic(kind):
        return _schema_by_pydantic(kind), True
    try:
        return _schema_by_msgspec(kind), False
    except _NO_SCHEMA as error:
        try:  # a union of dataclasses, for example
            if isinstance(kind, type) or typing.get_origin(kind) is not None:
                return _schema_by_pydantic(kind), True
        except (*_NO_SCHEMA, ImportError):
            pass
        problem = f"No JSON Schema can be derived from output={cut(repr(kind))}: {cut(str(error).splitlines()[0])}"
        raise SettingsError(problem, example) from error


def _schema_by_msgspec(kind: Any) -> dict[str, Any]:
    (root,), components = msgspec.json.schema_components((kind,), ref_template="#/$defs/{name}")
    _add_formats(inspect.type_info(kind), root, components, set())
    name = root.get("$ref", "").removeprefix("#/$defs/")
    if name in components:  # providers require an object at the root
        root = components[name]
        if f'"#/$defs/{name}"' not in msgspec.json.encode(components).decode():
            components = {key: component for key, component in components.items() if key != name}
    return {**root, "$defs": components} if components else dict(root)


def _schema_by_pydantic(kind: Any) -> dict[str, Any]:
    return dict(pydantic_adapter(kind).json_schema())


def _is_pydantic(kind: Any) -> bool:
    """True if the type contains a pydantic model or dataclass. Does not import pydantic."""
    return hasattr(kind, "__pydantic_core_schema__") or any(_is_pydantic(argument) for argument in typing.get_args(kind))


def pydantic_adapter(kind: Any) -> Any:
    """Return pydantic's adapter for a type."""
    from pydantic import TypeAdapter

    return TypeAdapter(kind)


def _add_formats(kind: inspect.Type, schema: dict[str, Any], components: dict[str, Any], done: set[str]) -> None:
    """Add formats of times to a schema, in place: msgspec omits them unless a time zone is required."""
    while isinstance(kind, inspect.Metadata):
        kind = kind.type
    if "$ref" in schema:
        name = schema["$ref"].removeprefix("#/$defs/")
        if name in done:
            return
        done.add(name)
        schema = components[name]
    if isinstance(kind, inspect.DateTimeType | inspect.TimeType):
        schema.setdefault("format", "time" if isinstance(kind, inspect.TimeType) else "date-time")
    for inner, inner_schema in _inside(kind, schema):
        if isinstance(inner_schema, dict):
            _add_formats(inner, inner_schema, components, done)


def _inside(kind: inspect.Type, schema: dict[str, Any]) -> Iterator[tuple[inspect.Type, Any]]:
    """Yield the types within a type, each with its part of the schema."""
    if isinstance(kind, inspect.UnionType):
        yield from _options(kind, schema)
    elif isinstance(kind, inspect.CollectionType):
        yield kind.item_type, schema.get("items")
    elif isinstance(kind, inspect.TupleType):
        yield from zip(kind.item_types, schema.get("prefixItems", ()), strict=False)
    elif isinstance(kind, inspect.DictType):
        yield kind.value_type, schema.get("additionalProperties")
    elif "properties" in schema:
        yield from ((field.type, schema["properties"][field.encode_name]) for field in getattr(kind, "fields", ()))
    else:
        yield from zip((field.type for field in getattr(kind, "fields", ())), schema.get("prefixItems", ()), strict=False)


def _options(kind: inspect.UnionType, schema: dict[str, Any]) -> Iterator[tuple[inspect.Type, Any]]:
    """Yield the types of a union with their schemas: Structs come last, several of them in their own ``anyOf``."""
    types = [member.type if isinstance(member, inspect.Metadata) else member for member in kind.types]
    structs = [member for member in types if isinstance(member, inspect.StructType) and not member.array_like]
    others = [member for member in types if member not in structs and not isinstance(member, inspect.NoneType)]
    options = schema.get("anyOf", [])
    yield from zip(others, options, strict=False)
    struct_options = options[len(others) :] if others or len(structs) < 2 or "discriminator" not in schema else options
    struct_options = struct_options[0]["anyOf"] if struct_options and "anyOf" in struct_options[0] else struct_options
    yield from zip(structs, struct_options, strict=False)
