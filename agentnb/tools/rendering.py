"""What a tool returned, as a model reads it."""

from __future__ import annotations

import json
from typing import Any

import msgspec

from agentnb.core.messages import Image, Text, encodable
from agentnb.tools.tool import ToolOutcome

MOST_ROWS = 30
"""Rows of a table that are shown; of a longer one the first and the last."""
MOST_COLUMNS = 20


def success(value: Any) -> ToolOutcome:
    """The outcome of a tool that returned ``value``."""
    if isinstance(value, ToolOutcome):
        return value
    if isinstance(value, Text | Image):
        return ToolOutcome(True, (value,), value)
    return ToolOutcome(True, (Text(encodable(as_text(value))),), value)


def as_text(value: Any) -> str:
    """Text as it is, data as JSON, tables as tables, anything else as Python shows it."""
    if isinstance(value, str):
        return value
    if value is None:
        return "(no value)"
    special = _special(value)
    if special is not None:
        return special
    try:
        return _as_json(value)
    except (TypeError, ValueError, RecursionError, OverflowError):
        return _repr(value)


def _repr(value: Any) -> str:
    try:
        return repr(value)
    except Exception as error:
        return f"an object of type {type(value).__name__} that cannot show itself ({type(error).__name__})"


def _as_json(value: Any) -> str:
    text = msgspec.json.encode(value, enc_hook=_plain).decode()
    if "null" in text:  # perhaps a number that JSON has not, which a model should not take for a missing value
        return json.dumps(msgspec.to_builtins(value, enc_hook=_plain), ensure_ascii=False, separators=(",", ":"))
    return text


def _special(value: Any) -> str | None:
    """Values of libraries that are known by name, so that none of them need be imported."""
    library, kind = type(value).__module__.partition(".")[0], type(value).__name__
    if library == "pandas" and kind in ("DataFrame", "Series"):
        size = " x ".join(str(length) for length in value.shape)
        columns = {"max_cols": MOST_COLUMNS} if kind == "DataFrame" else {}
        name = f" {value.name}" if kind == "Series" and value.name is not None else ""
        return f"{kind}{name}, {size}\n{value.to_string(max_rows=MOST_ROWS, **columns)}"
    if library == "matplotlib":
        figure = getattr(value, "figure", None) or value
        if hasattr(figure, "get_size_inches"):
            width, height = figure.get_size_inches() * figure.dpi
            return f"a figure of {width:.0f} x {height:.0f} pixels"
    if library == "numpy" and bool(getattr(value, "ndim", 0)):
        return str(value)
    if isinstance(value, bytes | bytearray | memoryview):
        return f"{len(value)} bytes"
    return None


def _plain(value: Any) -> Any:
    """What JSON has for values inside data that JSON does not know."""
    if hasattr(value, "tolist"):
        return value.tolist()
    if hasattr(value, "item") and callable(value.item):
        return value.item()
    return _repr(value)
