"""Function signatures as tools: the schema for the model, and the conversion of its arguments for the call.

The signature is converted to a msgspec struct once, so that checking arguments is a single ``convert``. JSON Schema is used
only on failure, to list all problems for the model.
"""

from __future__ import annotations

import functools
import inspect
import json
import re
import typing
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import WrapperDescriptorType
from typing import Annotated, Any, NamedTuple

import msgspec

from agentnb.core.messages import JsonObject
from agentnb.core.schema.json_schema import UnusableSchema, schema_errors
from agentnb.core.schema.whole_numbers import whole_numbers
from agentnb.errors import InvalidTool, with_names
from agentnb.tools.library.hints import UNREADABLE, is_of_library, read_hints, short_description, shorten
from agentnb.tools.library.json_types import INEXPRESSIBLE, excluded_members, is_type, json_part, path_schema
from agentnb.tools.tool import ToolContext, ToolOutcome, failure

MAX_SHOWN = 200
"""Maximum number of characters shown to the model from arguments that are not an object."""
_MODULES = re.compile(r"~|(?<!['\w])(?:[A-Za-z_]\w*\.)+(?=\w)")
_REFERENCE = re.compile(r"ForwardRef\('([^']*)'\)")


class ArgumentsRefused(Exception):
    """Arguments that do not match the signature; `problems` lists all mismatches."""


@dataclass(frozen=True, slots=True)
class Signature:
    """Signature of a function for a model."""

    description: str
    schema: JsonObject
    struct: type[msgspec.Struct]
    positional: tuple[str, ...]
    defaults: JsonObject
    context_name: str | None
    gaps: tuple[str, ...]
    """Omissions in the docstring and the type hints, one sentence each."""

    def bind(self, arguments: Any, context: ToolContext) -> tuple[list[Any], JsonObject]:
        """Return the positional and keyword arguments of the call. Raises `ArgumentsRefused`."""
        values = self.check(arguments)
        keywords = msgspec.structs.asdict(values)
        if len(arguments) < len(keywords):  # the function's own defaults apply to the others
            keywords = {name: keywords[name] for name in arguments}
        if self.context_name is not None:
            keywords[self.context_name] = context
        return self._positional(keywords) if self.positional else [], keywords

    def check(self, arguments: Any) -> msgspec.Struct:
        """Convert the arguments to the types of the function. Raises `ArgumentsRefused`."""
        try:
            return msgspec.convert(arguments, self.struct, dec_hook=_as_path)
        except msgspec.ValidationError as error:
            whole = whole_numbers(self.schema, arguments)  # 1.0 for an integer
            if whole is arguments:
                raise ArgumentsRefused(str(error)) from error
        try:
            return msgspec.convert(whole, self.struct, dec_hook=_as_path)
        except msgspec.ValidationError as error:
            raise ArgumentsRefused(str(error)) from error

    def _positional(self, keywords: JsonObject) -> list[Any]:
        """Remove and return the positional-only arguments up to the last one present; gaps get their default."""
        indexes = [index for index, name in enumerate(self.positional) if name in keywords]
        names = self.positional[: indexes[-1] + 1] if indexes else ()
        return [keywords.pop(name) if name in keywords else self.defaults[name] for name in names]


def read_signature(function: Callable[..., Any], name: str) -> Signature:
    """Read the signature of a function. Raises `InvalidTool` if a model could not call it."""
    called = _code_of(function)
    if inspect.isgeneratorfunction(called) or inspect.isasyncgenfunction(called):
        raise InvalidTool(f"{name} yields its values one by one", "Return a list instead")
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError) as error:
        raise InvalidTool(f"The signature of {name} cannot be read: {error}", _wrapping_advice(name, "value")) from error
    is_library = is_of_library(called)
    docstring = _read_docstring(function, is_short=is_library)
    hints = read_hints(called, name, is_library=is_library)
    gaps = [] if docstring.description else ["no docstring: the model sees no description of the tool"]
    fields: list[tuple[str, Any, Any]] = []
    defaults: JsonObject = {}
    context_name = None
    for parameter in parameters:
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            gaps.append(f"{parameter.name if is_library else parameter} is not offered to the model")
            continue
        hint = hints.get(parameter.name, Any)
        if hint is ToolContext:
            context_name = parameter.name
            continue
        if parameter.default is not parameter.empty:
            defaults[parameter.name] = parameter.default
        offered = _offered_type(parameter, hint, name, gaps, is_library=is_library)
        if offered is INEXPRESSIBLE:
            continue
        if parameter.name not in docstring.descriptions:
            gaps.append(f"{parameter.name} is not described in the docstring")
        hints[parameter.name] = offered
        fields.append(_field(parameter, offered, docstring.of_parameter(parameter.name, offered)))
    fields.sort(key=lambda field: field[2] is not msgspec.NODEFAULT)  # msgspec requires mandatory fields first
    struct, schema = _struct_and_schema(name, fields)
    _add_defaults(schema, defaults, [parameter.name for parameter in parameters])
    _order_choices(schema["properties"], hints)
    positional = tuple(p.name for p in parameters if p.kind is p.POSITIONAL_ONLY)
    return Signature(docstring.description, schema, struct, positional, defaults, context_name, tuple(gaps))


def _field(parameter: inspect.Parameter, hint: Any, told: str | None) -> tuple[str, Any, Any]:
    described = Annotated[hint, msgspec.Meta(description=told)] if told else hint
    if parameter.default is parameter.empty:
        return parameter.name, described, msgspec.NODEFAULT
    return parameter.name, described | msgspec.UnsetType if described is not Any else Any, msgspec.UNSET


def _offered_type(parameter: inspect.Parameter, hint: Any, name: str, gaps: list[str], *, is_library: bool) -> Any:
    """Return the JSON-compatible type of a parameter, and note excluded parts in ``gaps``.

    Returns `INEXPRESSIBLE` if only the default value is possible. Raises `InvalidTool` if there is no default value in that
    case, and for a hint of the person's own function that is not a type.
    """
    if hint is Any or hint is UNREADABLE:
        gaps.append(
            f"{parameter.name} has no type hint{' that can be read' if hint is UNREADABLE else ''}: any value is accepted"
        )
        return Any
    part = json_part(hint, any_for_object=is_library)
    if part is INEXPRESSIBLE:
        if parameter.default is parameter.empty or not (is_library or is_type(hint)):
            raise InvalidTool(
                f"{name} expects {parameter.name}: {_type_text(hint)}, which a model cannot write as JSON",
                _wrapping_advice(name, parameter.name)
                if is_library
                else "Accept a name or plain data, and look up the rest in the function",
            )
        gaps.append(f"{parameter.name} is not offered to the model, which cannot write {_type_text(hint)} as JSON")
    elif part is not hint and (members := excluded_members(hint, any_for_object=is_library)):
        gaps.append(f"{parameter.name} is offered without {', '.join(map(_type_text, members))}, which JSON cannot express")
    return part


def _wrapping_advice(name: str, parameter: str) -> str:
    """Return advice to wrap a function that cannot be a tool itself."""
    example = f"def my_{name}({parameter}: str): return {name}(...)"
    return f"Wrap it in your own function that takes a name or plain data and looks up the rest: {example}"


def _struct_and_schema(name: str, fields: list[tuple[str, Any, Any]]) -> tuple[type[msgspec.Struct], JsonObject]:
    # A name that no parameter type can have.
    struct = msgspec.defstruct(f"arguments_of_{name}", fields, forbid_unknown_fields=True, kw_only=True)
    (reference,), components = msgspec.json.schema_components((struct,), ref_template="#/$defs/{name}", schema_hook=path_schema)
    schema = components.pop(reference["$ref"].rpartition("/")[2])
    schema.pop("title", None)
    if components:
        schema["$defs"] = components
    return struct, schema


def _add_defaults(schema: JsonObject, defaults: JsonObject, order: list[str]) -> None:
    properties = schema.get("properties", {})
    for name, default in defaults.items():
        if name in properties and default is not None and _is_plain(default):
            properties[name]["default"] = default
    schema["properties"] = {name: properties[name] for name in order if name in properties}


def _order_choices(properties: JsonObject, hints: JsonObject) -> None:
    """Restore the source order of Literal values; msgspec sorts them."""
    for name, described in properties.items():
        written = typing.get_args(hints.get(name))
        if typing.get_origin(hints.get(name)) is typing.Literal and "enum" in described:
            described["enum"] = list(written)


def _as_path(hint: Any, value: Any) -> Path:
    """Convert a string from the model to a path."""
    if hint is Path:
        return Path(value)
    raise NotImplementedError  # as above


def _is_plain(value: Any) -> bool:
    try:
        return bool(msgspec.json.decode(msgspec.json.encode(value)) == value)
    except (TypeError, ValueError, RecursionError):
        return False


def _code_of(function: Callable[..., Any]) -> Any:
    """Return the code behind a callable: a partial's function, an object's ``__call__``, the function inside a wrapper."""
    while isinstance(function, functools.partial):
        function = function.func
    function = inspect.unwrap(function)
    return function if inspect.isroutine(function) else type(function).__call__


class _Docstring(NamedTuple):
    """A parsed docstring."""

    description: str
    descriptions: dict[str, str]
    """Descriptions of parameters by name."""
    types: dict[str, str]
    """Documented types of parameters by name."""

    def of_parameter(self, name: str, hint: Any) -> str | None:
        """Return the description of a parameter, with its documented type unless it has a type hint."""
        words = [self.types.get(name, "") if hint is Any else "", self.descriptions.get(name, "")]
        return ": ".join(filter(None, words)) or None


def _read_docstring(function: Callable[..., Any], *, is_short: bool) -> _Docstring:
    """Parse a docstring; ``is_short``: truncate it for requests."""
    code = _code_of(function)
    # Not the object's own docstring: a partial or callable object has that of its class.
    text = inspect.getdoc(function if isinstance(code, WrapperDescriptorType) else code) or ""
    if not set(text).intersection("\n:@"):  # one line without parameters: the parser would try all its styles
        return _Docstring(short_description(text) if is_short else text.strip(), {}, {})
    from docstring_parser import parse

    parsed = parse(text)
    description = "\n\n".join([part.strip() for part in (parsed.short_description, parsed.long_description) if part])
    described = [
        (name, parameter)
        for parameter in parsed.params
        for name in parameter.arg_name.split(", ")  # in NumPy style, parameters may share a line
    ]
    descriptions = {name: documented.description for name, documented in described if documented.description}
    types = {name: documented.type_name for name, documented in described if documented.type_name}
    if is_short:
        description = short_description(description)
        descriptions = {name: shorten(text) for name, text in descriptions.items()}
        types = {name: shorten(text) for name, text in types.items()}
    return _Docstring(description, descriptions, types)


def _type_text(hint: Any) -> str:
    """Return a type in source form, without module names."""
    if typing.get_origin(hint) is Annotated:
        hint = typing.get_args(hint)[0]
    if isinstance(hint, type) and not typing.get_args(hint):
        return hint.__name__
    return _MODULES.sub("", _REFERENCE.sub(r"\1", str(hint)))


def refused_arguments(name: str, arguments: Any, schema: JsonObject, otherwise: str = "") -> ToolOutcome:
    """Return the error result for arguments that do not match a tool. ``otherwise``: the problem if JSON Schema finds none."""
    is_object = isinstance(arguments, dict)
    reasons = (problems(arguments, schema) or [otherwise]) if is_object else not_an_object(arguments, schema)
    listed = "\n".join(f"- {problem}" for problem in reasons)
    return failure(
        "invalid_arguments",
        f"{name} was not run, because its arguments are invalid:\n{listed}",
        "Correct them and call it again.",
    )


def problems(arguments: Any, schema: JsonObject) -> list[str]:
    """Return the problems that JSON Schema finds, one sentence each; empty if the schema is unusable."""
    names = list(schema.get("properties", {}))
    sentences: list[str] = []
    try:
        errors = schema_errors(schema, arguments)
    except UnusableSchema:  # such as a pattern specific to Python
        return []
    for error in errors:
        if error.keyword == "additionalProperties" and not error.where:
            sentences += [with_names(f"There is no argument {name!r}.", name, names) for name in error.unexpected]
        else:
            sentences.append(error.sentence)
    return sentences


def not_an_object(arguments: Any, schema: JsonObject) -> list[str]:
    """Return sentences about arguments that are not an object: the problem, the received text, and the expected form.

    Arguments that are not JSON arrive as raw text.
    """
    if isinstance(arguments, str):
        came = arguments
        problem, position = _text_problem(came)
    else:
        came = msgspec.json.encode(arguments).decode()
        kind = {list: "a list", int: "a number", float: "a number"}.get(type(arguments), came)
        problem, position = f"they must be an object, not {kind}", 0
    start = max(0, position - MAX_SHOWN // 2)
    end = start + MAX_SHOWN
    shown = f"{'… ' if start else ''}{came[start:end]}{' …' if len(came) > end else ''}"
    names = ", ".join(schema.get("properties", {}))
    return [problem, f"received: {shown}", f"send one JSON object with {names}" if names else "send {}, it has no arguments"]


def _text_problem(text: str) -> tuple[str, int]:
    """Return the problem with arguments that arrived as text, and its position. Even valid JSON should not be sent as text."""
    try:
        json.loads(text, parse_constant=_no_constant, parse_int=str)
    except json.JSONDecodeError as error:
        return f"they are not JSON: {error.msg} at character {error.pos}", error.pos
    except ValueError as error:
        return f"they are not JSON: {error}", 0
    except RecursionError:
        return "they are nested too deeply", 0
    return "they must be an object, not a string", 0


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is not valid JSON")
