"""The JSON-compatible part of type hints."""

from __future__ import annotations

import operator
import types
import typing
from collections.abc import Callable, Hashable, Sequence
from functools import partial, reduce
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar, Union

import msgspec

INEXPRESSIBLE = object()
"""Marker for a type without JSON-compatible values."""
OF_EACH_PROTOCOL = frozenset({"__init__", "_proto_hook", "__subclasshook__"})
"""Methods that `typing` adds to protocols."""


def path_schema(hint: Any) -> dict[str, Any]:
    """Return the schema of a path, a string: the only standard library type that tools accept and msgspec does not."""
    if hint is Path:
        return {"type": "string"}
    raise NotImplementedError  # msgspec turns it into its own error for unknown types


def is_expressible(hint: Any) -> bool:
    """True if JSON can represent the values of this type."""
    try:
        msgspec.json.schema(hint, schema_hook=path_schema)
    except Exception:  # including errors of hints inside a class
        return False
    return True


def is_type(hint: Any) -> bool:
    """True if a hint is a type, unlike ``[int]`` or the function ``any``."""
    kinds = (type, types.GenericAlias, types.UnionType, TypeVar)
    return isinstance(hint, kinds) or type(hint).__module__ in ("typing", "typing_extensions")


def json_part(hint: Any, *, any_for_object: bool = False) -> Any:
    """Return the JSON-compatible part of a type, such as ``str`` of ``str | Buffer``, or `INEXPRESSIBLE`.

    ``None`` alone does not count. ``any_for_object``: treat ``object`` and ``Hashable`` as any JSON value.
    """
    if any_for_object and (hint is object or hint is Hashable):
        return Any
    if is_expressible(hint):
        return hint
    part = partial(json_part, any_for_object=any_for_object)
    if isinstance(hint, TypeVar):
        return part(Any if hint.__bound__ is None else hint.__bound__)
    if typing.get_origin(hint) is Annotated:
        return part(typing.get_args(hint)[0])
    return _generic_part(typing.get_origin(hint) or hint, typing.get_args(hint), part)


def _generic_part(origin: Any, arguments: tuple[Any, ...], part: Callable[[Any], Any]) -> Any:
    if origin is Literal:
        values = tuple(value for value in arguments if type(value) in (str, int, bool))
        return Literal[values] if values else INEXPRESSIBLE
    if origin in (Union, types.UnionType):
        return _union([part(member) for member in arguments])
    if _takes(origin, list):
        item = part(arguments[0]) if arguments else Any
        return item if item is INEXPRESSIBLE else types.GenericAlias(list, (item,))
    if _takes(origin, dict):
        value = part(arguments[1]) if len(arguments) > 1 else Any
        return value if value is INEXPRESSIBLE else types.GenericAlias(dict, (str, value))
    return INEXPRESSIBLE


def _takes(kind: Any, container: type) -> bool:
    """True if a list or dict is accepted for this type: the same type, an abstract one, or a protocol that it implements."""
    if kind is container or getattr(kind, "__module__", "") == "collections.abc":
        return issubclass(container, kind)
    if not getattr(kind, "_is_protocol", False):
        return False
    protocols = [base for base in kind.__mro__ if getattr(base, "_is_protocol", False)]
    methods = {name for base in protocols for name, held in vars(base).items() if isinstance(held, types.FunctionType)}
    return bool(methods - OF_EACH_PROTOCOL) and all(hasattr(container, name) for name in methods - OF_EACH_PROTOCOL)


def _union(parts: Sequence[Any]) -> Any:
    """Return the ordered union of these parts, omitting those that msgspec cannot distinguish from an earlier one."""
    if any(part is Any for part in parts):
        return Any
    members: tuple[Any, ...] = ()
    for part in parts:
        if part is not INEXPRESSIBLE and is_expressible(_join_types((*members, part))):
            members += (part,)
    return INEXPRESSIBLE if all(member is type(None) for member in members) else _join_types(members)


def _join_types(members: tuple[Any, ...]) -> Any:
    return reduce(operator.or_, members)


def excluded_members(hint: Any, *, any_for_object: bool = False) -> list[Any]:
    """Return the members of a union that JSON cannot represent, except literals: those stand for special values of the
    library.
    """
    members = typing.get_args(hint) if typing.get_origin(hint) in (Union, types.UnionType) else ()
    return [
        member
        for member in members
        if typing.get_origin(member) is not Literal and json_part(member, any_for_object=any_for_object) is INEXPRESSIBLE
    ]
