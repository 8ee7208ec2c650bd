"""Content hashes: equal content has an equal hash, on every machine and in every process."""

from __future__ import annotations

import hashlib
import inspect
import types
from functools import partial
from typing import Any

import msgspec

HASH_LETTERS = 16
PLAIN = (str, bytes, int, float, tuple, list, dict, set, frozenset, type(None))
"""Kinds of values that count by their ``repr``."""
_encoder = msgspec.json.Encoder(order="sorted", enc_hook=repr)


def content_hash(*parts: Any) -> str:
    """Return a hash of plain data; other objects count by their ``repr``."""
    try:
        data = _encoder.encode(parts)
    except (TypeError, UnicodeEncodeError):  # keys that JSON has not, or half a surrogate pair
        data = repr(parts).encode("utf-8", "backslashreplace")
    return hashlib.sha256(data).hexdigest()[:HASH_LETTERS]


def source_of(value: Any, seen: tuple[int, ...] = ()) -> str:
    """Return the source of a function or tool, or its compiled code where there is none, with what it closes over.

    Of anything else its class, or its value if it is plain. ``seen``: the functions around it.
    """
    if isinstance(value, partial):
        return f"{source_of(value.func, seen)} {[source_of(one, seen) for one in (*value.args, *value.keywords.items())]}"
    function: Any = inspect.unwrap(getattr(value, "function", value))
    if not isinstance(function, types.FunctionType):
        kind = type(function)
        return repr(function) if isinstance(function, PLAIN) else f"{kind.__module__}.{kind.__qualname__}"
    if id(function) in seen:
        return function.__qualname__
    try:
        text = inspect.getsource(function)
    except (OSError, TypeError):
        text = _compiled(function.__code__)
    inside = (*seen, id(function))
    cells = [cell.cell_contents for cell in function.__closure__ or () if not _is_empty(cell)]
    held = [*cells, *(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values()]
    return f"{text} {[source_of(one, inside) for one in held]}" if held else text


def _is_empty(cell: types.CellType) -> bool:
    try:
        return cell.cell_contents is None
    except ValueError:  # not filled yet
        return True


def _compiled(code: types.CodeType) -> str:
    """Return the instructions and constants of code; the constants of inner functions by theirs, as their addresses vary."""
    constants = [_compiled(one) if isinstance(one, types.CodeType) else repr(one) for one in code.co_consts]
    return f"{code.co_code.hex()} {code.co_names} {constants}"
