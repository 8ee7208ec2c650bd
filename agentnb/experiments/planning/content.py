"""Content hashes: equal content has an equal hash, on every machine and in every process."""

from __future__ import annotations

import hashlib
import inspect
import types
from typing import Any

import msgspec

HASH_LETTERS = 16
_encoder = msgspec.json.Encoder(order="sorted", enc_hook=repr)


def content_hash(*parts: Any) -> str:
    """Return a hash of plain data; other objects count by their ``repr``."""
    return hashlib.sha256(_encoder.encode(parts)).hexdigest()[:HASH_LETTERS]


def source_of(value: Any) -> str:
    """Return the source of a function or tool, or its compiled code where there is no source; of anything else its class."""
    function: Any = inspect.unwrap(getattr(value, "function", value))
    try:
        return inspect.getsource(function)
    except (OSError, TypeError):
        code = getattr(function, "__code__", None)
        return _compiled(code) if code is not None else f"{type(function).__module__}.{type(function).__qualname__}"


def _compiled(code: types.CodeType) -> str:
    """Return the instructions and constants of code; the constants of inner functions by theirs, as their addresses vary."""
    constants = [_compiled(one) if isinstance(one, types.CodeType) else repr(one) for one in code.co_consts]
    return f"{code.co_code.hex()} {code.co_names} {constants}"
