"""Looks up tools by the dotted names of variables, such as ``sales.describe`` and ``pd.read_csv``.

Lookup does not run any code of the objects along the path: neither properties nor ``__getattr__``.
"""

from __future__ import annotations

import functools
import inspect
import re
import types
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import Any

from agentnb.advice import Advised, Plain
from agentnb.errors import UnknownTool, suggest_names, suggest_similar
from agentnb.tools.agent_tool import tool_of_variable

MISSING = object()
"""Represents an attribute that does not exist, or whose value requires running code."""
PLAIN = (str, bytes, int, float, complex, list, tuple, dict, set, frozenset, type, type(None))
"""Types whose methods are not proposed, since nearly every notebook has variables of these types."""
MAX_PROPOSED = 3
METHODS = (types.FunctionType, type(functools.lru_cache(len)))
_DOTTED = re.compile(r"[^\W\d]\w*(?:\.[^\W\d]\w*)+")


class NeedsCode(Exception):
    """Raised for an attribute whose value requires running code of its class, such as a property."""


class NeedsObject(Exception):
    """Raised for a method that is accessed on a class but needs an object."""


def is_dotted(name: str) -> bool:
    """True for a name that contains a dot."""
    return _DOTTED.fullmatch(name) is not None


def find_dotted(name: str, variables: Mapping[str, Any]) -> Any:
    """Return the tool with this dotted name. Raises `UnknownTool`, suggesting the name to use instead."""
    path, *parts = name.split(".")
    value = variables.get(path, MISSING)
    if value is MISSING:
        candidates = [variable for variable in variables if not variable.startswith("_")]
        raise _unknown_tool(name, f"the variable {path} is not defined", suggest_names(path, candidates) or "Define it first")
    for part in parts:
        value = _part(name, path, value, part, variables)
        path = f"{path}.{part}"
    if not (callable(value) or _is_a(value, list | tuple) or inspect.getattr_static(value, "run", None)):
        raise _unknown_tool(name, f"it is of type {type(value).__name__}", "Name a function or a method")
    return tool_of_variable(value, parts[-1])


def _part(name: str, path: str, value: Any, part: str, variables: Mapping[str, Any]) -> Any:
    """Return the value of ``part``, which follows ``path`` in a dotted name. ``value``: the value at ``path``."""
    if part.startswith("_"):
        raise _unknown_tool(name, f"{part} is private", _in_variable(path, part))
    try:
        attribute = static_attribute(value, part)
    except NeedsCode as error:
        problem = f"{part} is of type {error}; agentnb does not run code to look up a tool"
        raise _unknown_tool(name, problem, _in_variable(path, part)) from None
    except NeedsObject:
        objects = [f"{variable}.{part}" for variable, held in public_variables(variables) if _is_a(held, value)]
        hint = f"Name it with an instance: {(objects or ['my_object.' + part])[0]}"
        raise _unknown_tool(name, f"{part} is a method of a class and needs an instance", hint) from None
    if attribute is MISSING:
        raise _unknown_tool(name, f"{path} has no {part}", _instead(path, part, value))
    return attribute


def _unknown_tool(name: str, why: str, advice: Advised) -> UnknownTool:
    return UnknownTool(f"There is no tool {name!r}: {why}", advice)


def public_variables(variables: Mapping[str, Any]) -> list[tuple[str, Any]]:
    """Return the variables whose names do not begin with an underscore. A running cell may add others meanwhile."""
    return [(name, value) for name, value in list(variables.items()) if not name.startswith("_")]


def _is_a(value: Any, kinds: Any) -> bool:
    """Return whether the value has one of these types, without reading its ``__class__``, which may be a property."""
    return issubclass(type(value), kinds)


def static_attribute(value: Any, name: str) -> Any:
    """Return an attribute of an object or module, with methods bound, without running its code; `MISSING` if it does not exist.

    Raises `NeedsCode` for properties and the like, and `NeedsObject` for methods of a class.
    """
    if _is_a(value, types.ModuleType):
        return _variables_of(value).get(name, MISSING)
    attribute, kind = inspect.getattr_static(value, name, MISSING), type(value)
    if is_class := _is_a(value, type):
        if type(attribute) in (*METHODS, types.MethodDescriptorType):
            raise NeedsObject
        kind = value
    elif attribute is not inspect.getattr_static(kind, name, MISSING):
        return attribute  # its own
    if type(attribute) in (staticmethod, classmethod):
        function = attribute.__func__
        if type(function) not in (*METHODS, types.BuiltinFunctionType):  # a property, which `__get__` would run
            raise NeedsCode(type(function).__name__)
    elif not _is_bound_by_python(attribute, is_class=is_class):
        has_code = inspect.getattr_static(type(attribute), "__get__", MISSING) is not MISSING
        if has_code and not _is_a(attribute, types.BuiltinFunctionType):
            raise NeedsCode(type(attribute).__name__)
        return attribute
    try:
        return attribute.__get__(None if is_class else value, kind)
    except AttributeError:  # an empty slot
        return MISSING


def _is_bound_by_python(attribute: Any, *, is_class: bool) -> bool:
    """True if binding an attribute runs no code of its class; the slots of a class are only bound to its objects."""
    of_objects = () if is_class else (*METHODS, types.MethodDescriptorType, types.MemberDescriptorType)
    return type(attribute) in (types.ClassMethodDescriptorType, *of_objects)


def _variables_of(module: types.ModuleType) -> dict[str, Any]:
    """Return a module's variables, even if its class overrides ``__getattribute__``."""
    slot: Any = vars(types.ModuleType)["__dict__"]
    variables: dict[str, Any] = slot.__get__(module)
    return variables


def dotted_names(beginning: str, variables: Mapping[str, Any]) -> list[str]:
    """Return the dotted names of functions, methods and modules that start with this text (which contains a dot)."""
    path, _, beginning = beginning.rpartition(".")
    value = _held(variables, path)
    if value is MISSING:
        return []
    return [f"{path}.{name}" for name in _names_in(value) if name.startswith(beginning)]


def proposed_names(name: str, variables: Mapping[str, Any]) -> list[str]:
    """Return the dotted names of functions with this name in objects and modules that variables hold."""
    if not name.isidentifier() or name.startswith("_"):
        return []
    names = (
        f"{variable}.{name}"
        for variable, value in public_variables(variables)
        if not _is_a(value, PLAIN) and _is_function(_attribute(value, name))
    )
    return [*islice(names, MAX_PROPOSED)]


def _is_function(value: Any) -> bool:
    return callable(value) and not _is_a(value, type)


def typed_names(typed: Iterable[str], names: Iterable[str]) -> dict[str, str]:
    """Return the dotted names among those typed for a run, by tool name."""
    ends = {word.rpartition(".")[2]: word for word in typed if is_dotted(word)}
    return {name: ends[name] for name in names if name in ends}


def _names_in(value: Any) -> Iterator[str]:
    """Yield the public names of an object's functions and methods, and of the modules in a module."""
    is_module, is_class = _is_a(value, types.ModuleType), _is_a(value, type)
    names = [*_variables_of(value)] if is_module else type.__dir__(value if is_class else type(value))
    for name in names:
        attribute = MISSING if name.startswith("_") else _attribute(value, name)
        if _is_function(attribute) or (is_module and _is_a(attribute, types.ModuleType)):
            yield name


def _attribute(value: Any, name: str) -> Any:
    try:
        return static_attribute(value, name)
    except (NeedsCode, NeedsObject):
        return MISSING


def _held(variables: Mapping[str, Any], path: str) -> Any:
    """Return the value at a dotted path, or `MISSING` if that requires running code."""
    first, *parts = path.split(".")
    value = variables.get(first, MISSING)
    for part in parts:
        value = MISSING if value is MISSING or part.startswith("_") else _attribute(value, part)
    return value


def _in_variable(path: str, part: str, lead: str = "Assign it") -> Plain:
    name = part.lstrip("_") or "value"
    return Plain(text=f"{lead} to a variable in a cell and name the variable: {name} = {path}.{part}")


def _instead(path: str, part: str, value: Any) -> Advised:
    """Return advice for a missing attribute: similar names, and places where it may be."""
    similar = suggest_similar(part, [*_names_in(value)])
    if not _is_a(value, types.ModuleType):
        return (*similar, _in_variable(path, part, "If Python can read it, assign it"))
    return similar or f"If it is a module, import it first: import {value.__name__}.{part}"
