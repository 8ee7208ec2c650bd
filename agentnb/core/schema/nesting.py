"""Limit on the nesting of untrusted data: logged data must be readable from any point in a program.

Encoding, decoding and comparing recurse once per level, and Python stops recursion at about a thousand calls, including those
of the surrounding program.
"""

from __future__ import annotations

import re
from typing import Any

import msgspec
from msgspec.structs import replace

from agentnb.core.messages import AnyPart, Message, ToolCall

MAX_DEPTH = 100
"""Maximum number of levels of objects and lists in a call's arguments, a schema, an answer, or provider metadata."""
UNREADABLE = "[" * (MAX_DEPTH + 1)
"""Replacement for arguments too deep to be encoded. As JSON, it is itself too deep, and therefore refused."""

_CONTAINERS = (dict, list, tuple)
_FLAT = frozenset({str, int, float, bool, type(None)})
"""Types of nearly all values in containers: looking them up takes half as long as testing for a container."""
_QUOTED = re.compile(r'"(?:[^"\\]|\\.)*"', re.DOTALL)
_TOKEN = re.compile(rf"{_QUOTED.pattern}|[\[{{\]}}]", re.DOTALL)
_BRACKET = re.compile(r"[\[{\]}]")


def is_too_deep(value: Any, most: int = MAX_DEPTH) -> bool:
    """True if objects and lists are nested deeper than ``most``. Flat data costs one check per item."""
    if not isinstance(value, _CONTAINERS):
        return False
    for item in value.values() if isinstance(value, dict) else value:  # most data is flat
        if type(item) not in _FLAT:
            return _is_too_deep(value, most)
    return most < 1


def _is_too_deep(value: Any, most: int) -> bool:
    level = [value]
    for _ in range(most):
        inner = [
            item
            for container in level
            for item in (container.values() if isinstance(container, dict) else container)
            if type(item) not in _FLAT and isinstance(item, _CONTAINERS)
        ]
        if not inner:
            return False
        # Shared objects are checked once: otherwise each level could be twice as long as the previous.
        level = inner if len(inner) <= len(level) else list({id(item): item for item in inner}.values())
    return True


def text_is_too_deep(text: str) -> bool:
    """True if the JSON text is nested deeper than `MAX_DEPTH`."""
    if text.count("[") + text.count("{") <= MAX_DEPTH:
        return False
    depth = 0
    for bracket in _BRACKET.findall(_QUOTED.sub("", text)):
        depth += 1 if bracket in "[{" else -1
        if depth > MAX_DEPTH:
            return True
    return False


def cut_deep(text: str, most: int) -> str:
    """Empty the objects and lists of a JSON text that are nested deeper than ``most``."""
    kept, depth, begin = list[str](), 0, 0
    for token in _TOKEN.finditer(text):
        is_end = token[0] in ("]", "}")
        if token[0] in ("[", "{"):
            depth += 1
        if depth == most + 1 and is_end:
            begin = token.start()
        elif depth == most + 1 and token[0] in ("[", "{"):
            kept.append(text[begin : token.end()])
            begin = len(text)
        depth -= is_end
    return "".join([*kept, text[begin:]])


def bound_message(message: Message) -> Message:
    """Return the message without parts that are too deep; usually the same object.

    Arguments that are too deep become text, which is stored and refused like any other text in place of arguments. Provider
    metadata that is too deep is dropped.
    """
    parts = tuple([_bound_part(part) for part in message.parts])
    unchanged = all(part is before for part, before in zip(parts, message.parts, strict=True))
    return message if unchanged else replace(message, parts=parts)


def bound_metadata(metadata: dict[str, Any]) -> dict[str, Any]:
    """Return the metadata of a reply without entries that are too deep."""
    if not is_too_deep(metadata):
        return metadata
    return {name: value for name, value in metadata.items() if not is_too_deep([value])}


def _bound_part(part: AnyPart) -> AnyPart:
    if type(part) is ToolCall and is_too_deep(part.arguments):
        part = replace(part, arguments=_as_text(part.arguments))
    kept = getattr(part, "provider_metadata", None)
    return replace(part, provider_metadata=None) if kept is not None and is_too_deep(kept) else part


def _as_text(arguments: Any) -> str:
    try:
        return msgspec.json.encode(arguments).decode()
    except (RecursionError, TypeError, ValueError):
        return UNREADABLE
