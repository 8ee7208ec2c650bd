"""Values as text, without running their code: no property, ``__repr__`` or ``__len__`` of an unknown class is called.

Known classes, compared by identity, are Python's own, its containers, and those of pandas and numpy (`tables`). Of any other
class or subclass, only the type name is shown.
"""

from __future__ import annotations

import collections
import datetime
import decimal
import fractions
import pathlib
import sys
import types
import uuid
from collections.abc import Callable, Iterable
from itertools import islice
from typing import Any

from agentnb.core.messages import encodable
from agentnb.core.redaction import redact

MAX_DIGITS = 60
MAX_BITS = 2_000
"""Maximum number of bits of an integer that is written in digits: Python refuses very long ones."""
_SEQUENCES: dict[type, tuple[str, str]] = {
    list: ("[", "]"),
    tuple: ("(", ")"),
    set: ("{", "}"),
    frozenset: ("frozenset({", "})"),
    collections.deque: ("deque([", "])"),
}
_MAPPINGS: dict[type, tuple[str, str]] = {
    dict: ("{", "}"),
    collections.OrderedDict: ("OrderedDict({", "})"),
    collections.defaultdict: ("defaultdict({", "})"),
    collections.Counter: ("Counter({", "})"),
}
_PATHS = frozenset({pathlib.PosixPath, pathlib.WindowsPath, pathlib.PurePosixPath, pathlib.PureWindowsPath})
_name_of_type = type.__dict__["__qualname__"].__get__
_namespace_of_type = type.__dict__["__dict__"].__get__
_module_of_type = type.__dict__["__module__"].__get__
_flags_of_type = type.__dict__["__flags__"].__get__
_MADE_BY_PYTHON = 1 << 9
"""Type flag (Py_TPFLAGS_HEAPTYPE) that static types in C extensions lack."""


def plain_text(value: Any) -> str:
    """Return the text as an exact `str`, since it may be an instance of a subclass."""
    return encodable(str.__str__(value))


def cut(text: str, most: int) -> str:
    """Return the text on one line, redacted and then cut."""
    line = " ".join(encodable(text[: 20 * most]).split())
    if len(line) <= most:
        return line
    line = redact(line)  # before cutting: a partial key would not be recognized
    return line if len(line) <= most else f"{line[: most - 3]}..."


def name_of_class(kind: type) -> str:
    """Return the qualified name of a class, bypassing its metaclass."""
    name = plain_text(_name_of_type(kind))
    # No lookup: that might call the comparison of keys of another class.
    names = [*_namespace_of_type(kind).items()]
    module = next((value for key, value in names if type(key) is str and key == "__module__"), None)
    if module is None and not _flags_of_type(kind) & _MADE_BY_PYTHON:
        module = _module_of_type(kind)
    if type(module) is not str or module in ("builtins", "__main__"):
        return name
    public = module.partition("._")[0]  # pathlib._local.Path is known as pathlib.Path
    return f"{encodable(public)}.{name}"


def name_of_type(value: Any) -> str:
    """Return the qualified name of the type of a value."""
    return name_of_class(type(value))


def unknown_text(value: Any) -> str:
    """Return the text for a value of an unknown class."""
    return f"<{name_of_type(value)}>"


def short_text(value: Any, most: int = 80, depth: int = 2, items: int = 6) -> str:
    """Return a value on one line, with limits on characters, levels of containers, and items of each."""
    kind = type(value)
    show = _SHOWN.get(id(kind))
    if show is not None:
        return cut(show(value), most)
    if is_sequence(value) or is_mapping(value):
        return cut(_container(value, most, depth, items), most)
    if kind is types.FunctionType:
        return cut(signature_text(value), most)
    if issubclass(kind, type):
        return cut(f"<class {name_of_class(value)}>", most)
    from_library = scalar_of_library(value)
    return cut(unknown_text(value) if from_library is None else from_library, most)


def is_sequence(value: Any) -> bool:
    """True for exact instances of Python's sequences and sets."""
    return id(type(value)) in _BRACKETS and not is_mapping(value)


def is_mapping(value: Any) -> bool:
    """True for exact instances of Python's mappings."""
    kind = type(value)
    return any(kind is mapping for mapping in _MAPPINGS)


def _container(value: Any, most: int, depth: int, items: int) -> str:
    opening, closing = _BRACKETS[id(type(value))]
    count = size_of(value) or 0
    if not count:
        return f"{opening}{closing}"
    if not depth:
        return f"{opening}...{closing}"
    if is_mapping(value):
        pairs = islice(items_of(value), items)
        shown = [f"{short_text(key, most, 0)}: {short_text(item, most, depth - 1, items)}" for key, item in pairs]
    else:
        shown = [short_text(item, most, depth - 1, items) for item in islice(iter(value), items)]
    more = f", ... {count - items:,} more" if count > items else ""
    return f"{opening}{', '.join(shown)}{more}{closing}"


def items_of(value: Any) -> Iterable[tuple[Any, Any]]:
    """Return the items of an exact mapping. Iteration raises RuntimeError if another thread changes it."""
    base = collections.OrderedDict if type(value) is collections.OrderedDict else dict
    return iter(base.items(value))


def size_of(value: Any) -> int | None:
    """Return the length of an exact container, text or range, or None for other values."""
    kind = type(value)
    if is_mapping(value):
        return dict.__len__(value)
    return len(value) if is_sequence(value) or kind is str or kind is bytes or kind is bytearray or kind is range else None


def signature_text(function: types.FunctionType) -> str:
    """Return the name and parameters of a Python function, without default values."""
    code = function.__code__
    names = [*code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]]
    names[code.co_argcount :] = [f"{name}=" for name in names[code.co_argcount :]]
    return f"{plain_text(function.__name__)}({', '.join(map(plain_text, names))})"


def scalar_of_library(value: Any) -> str | None:
    """Return a NumPy or pandas number or time as text, or None for other values."""
    kind = type(value)
    numpy, pandas = library("numpy"), library("pandas")
    if any(kind is scalar_type for scalar_type in _scalar_types(numpy)):
        return str(value.item()) if not issubclass(kind, (numpy["datetime64"], numpy["timedelta64"])) else str(value)
    if pandas:
        if kind is pandas.get("Timestamp"):  # with a zone, formatting would run the code of its tzinfo
            return str(value.asm8).replace("T", " ").rstrip("0").rstrip(".").removesuffix(" 00:00:00")
        if value is pandas.get("NaT") or value is pandas.get("NA"):
            return "missing"
        if kind is pandas.get("Timedelta") or kind is pandas.get("Period"):
            return str(value)
    return None


def library(name: str) -> dict[str, Any]:
    """Return the namespace of a loaded module, empty if it is not loaded."""
    module = sys.modules.get(name)
    return vars(module) if type(module) is types.ModuleType else {}


def _scalar_types(numpy: dict[str, Any]) -> list[type]:
    names = ("bool_", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float16", "float32", "float64")
    more = ("complex64", "complex128", "str_", "bytes_", "datetime64", "timedelta64", "longlong", "ulonglong")
    return [numpy[name] for name in (*names, *more) if name in numpy]


def _time_text(value: Any) -> str:
    """Return a time without its zone, because formatting the zone would run its code."""
    return f"{value.replace(tzinfo=None).isoformat()}{'' if value.tzinfo is None else ' (with a time zone)'}"


_SCALARS: dict[type, Callable[[Any], str]] = {
    type(None): repr,
    bool: repr,
    int: lambda value: repr(value) if value.bit_length() <= MAX_BITS else f"a whole number of {value.bit_length():,} bits",
    float: repr,
    complex: repr,
    str: lambda value: repr(value[:2_000]),
    bytes: lambda value: repr(value[:200]),
    bytearray: lambda value: f"bytearray of {len(value):,} bytes",
    range: repr,
    type(Ellipsis): repr,
    datetime.date: repr,
    datetime.timedelta: repr,
    datetime.datetime: _time_text,
    datetime.time: _time_text,
    decimal.Decimal: repr,
    fractions.Fraction: repr,
    uuid.UUID: repr,
    types.BuiltinFunctionType: lambda value: f"<built-in {plain_text(value.__name__)}>",
    types.ModuleType: lambda value: "<module>",
    **dict.fromkeys(_PATHS, str),
}
"""Python's own classes, with their formatters."""
# By identity: looking up a class would call its metaclass for a hash.
_SHOWN = {id(kind): show for kind, show in _SCALARS.items()}
_BRACKETS = {id(kind): brackets for kind, brackets in (_SEQUENCES | _MAPPINGS).items()}
