"""Return values of tools as text for a model, with a picture if the value is one."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import Any

import msgspec

from agentnb.core.display_data import Table
from agentnb.core.messages import Image, ResultParts, Text, encodable
from agentnb.tools.data_frames import frame_table, frame_text
from agentnb.tools.library_classes import is_of
from agentnb.tools.pictures import figure_of, figure_words, picture_of
from agentnb.tools.tool import ToolOutcome

MAX_ITEMS = 100
"""Maximum number of items in a list that is searched for pictures."""
PLAIN = frozenset({str, int, float, bool, dict, list, tuple, type(None)})
"""Types that are never pictures, for a quick check of list items."""
WORDS = frozenset({str, int, float, bool, dict, type(None)})
"""Types that become text only and contain no pictures."""
MAX_PICTURES = 20
"""Maximum number of pictures in a result; further ones are only described."""


def success(value: Any) -> ToolOutcome:
    """Return the outcome of a tool that returned ``value``."""
    if type(value) in WORDS:  # neither a picture nor a table
        return ToolOutcome(True, (Text(encodable(as_text(value))),), value)
    if isinstance(value, ToolOutcome):
        return value
    return ToolOutcome(True, parts_of(value), value, display=_table(value))


def parts_of(value: Any) -> ResultParts:
    """Convert a value for a model. Text before each picture describes it, for readers who cannot see it."""
    if isinstance(value, list | tuple) and len(value) <= MAX_ITEMS:
        parts = _one_by_one(value)
    elif isinstance(value, Text):
        parts = (value,)
    else:
        picture = picture_of(value)
        parts = picture.parts(as_text(value) if picture.words is None else "") if picture is not None else ()
    return tuple(map(_encodable, parts)) or (Text(encodable(as_text(value))),)


def as_text(value: Any) -> str:
    """Return text unchanged, data as JSON, tables as tables, and other values as their repr."""
    if isinstance(value, str):
        return value
    if value is None:
        return "(no value)"
    if type(value) not in PLAIN:
        try:
            special = _special(value)
        except Exception:  # an unusual table or figure must not fail the tool
            return _repr(value)
        if special is not None:
            return special
    try:
        return _as_json(value)
    except (TypeError, ValueError, RecursionError, OverflowError):
        return _repr(value)


def _table(value: Any) -> Table | None:
    """Return the value as a table for the person; if there are several values, the first table."""
    for item in value if isinstance(value, list | tuple) and len(value) <= MAX_ITEMS else (value,):
        if type(item) in PLAIN:
            continue
        try:
            table = frame_table(item)
        except Exception:  # an unusual table must not fail the tool, which has its text
            return None
        if table is not None:
            return table
    return None


def _one_by_one(items: Sequence[Any]) -> ResultParts:
    """Convert items in order, each figure once. Empty if there are no pictures."""
    if all(type(item) in PLAIN for item in items):
        return ()
    parts: list[Text | Image] = []
    seen: list[object] = []
    for item in items:
        if isinstance(item, Text):
            parts.append(item)
            continue
        figure = figure_of(item)
        if figure is not None and any(figure is earlier for earlier in seen):
            continue
        picture = picture_of(item) if len(seen) < MAX_PICTURES else None
        if picture is None:
            parts.append(Text(as_text(item)))
        else:
            seen.append(picture.source)
            parts += picture.parts(as_text(item) if picture.words is None else "")
    return tuple(joined_texts(parts)) if seen else ()


def joined_texts(parts: Iterable[Text | Image]) -> list[Text | Image]:
    """Merge adjacent text parts."""
    joined: list[Text | Image] = []
    for _, group in groupby(parts, type):
        alike = list(group)
        texts = [part.text for part in alike if isinstance(part, Text)]
        joined += [Text("\n".join(texts))] if len(texts) > 1 else alike
    return joined


def _encodable(part: Text | Image) -> Text | Image:
    return Text(encodable(part.text), part.provider_metadata) if isinstance(part, Text) else part


def _repr(value: Any) -> str:
    try:
        return repr(value)
    except Exception as error:
        return f"an object of type {type(value).__name__} whose repr fails ({type(error).__name__})"


def _as_json(value: Any) -> str:
    text = _encoder.encode(value).decode()
    if "null" in text:  # perhaps from NaN or infinity, which a model must not take for a missing value
        return json.dumps(msgspec.to_builtins(value, enc_hook=_plain), ensure_ascii=False, separators=(",", ":"))
    return text


def _special(value: Any) -> str | None:
    """Return the text for a value of a known library, recognized by class name without an import, otherwise None."""
    if isinstance(value, bytes | bytearray | memoryview):
        return f"{len(value)} bytes"
    if type(value).__module__ == "builtins":
        return None
    if (frame := frame_text(value)) is not None:
        return frame
    figure = figure_of(value)
    if figure is not None:
        return figure_words(figure)
    return str(value) if is_of(value, "numpy", "ndarray") and bool(value.ndim) else None


def _plain(value: Any) -> Any:
    """Convert a nested value that JSON cannot represent."""
    if hasattr(value, "tolist"):
        return value.tolist()
    if hasattr(value, "item") and callable(value.item):
        return value.item()
    return _repr(value)


_encoder = msgspec.json.Encoder(enc_hook=_plain)
