"""The check of the values in a log that was read: they must fit into tables, and be shown and written again in any place."""

from __future__ import annotations

from typing import Any

from agentnb.core.messages import Message, Text, Thinking, ToolCall
from agentnb.core.request import ToolSpec
from agentnb.core.schema.nesting import is_too_deep

MAX_DEPTH = 300
"""Levels of data that can be shown and written again in any place; what agentnb writes now has at most 100."""


class Wrong(Exception):
    """Why an event cannot stand where it stands."""


class _Sound:
    """The tools whose schemas were last found sound, in any log."""

    tools: tuple[ToolSpec, ...] = ()


def check_depth(name: str, value: Any) -> None:
    """Raise `Wrong` if this data is nested too deep."""
    if value and is_too_deep(value, MAX_DEPTH):
        raise _too_deep(name)


def _too_deep(name: str) -> Wrong:
    return Wrong(f"{name} is nested too deep to be read")


def check_tools(tools: tuple[ToolSpec, ...]) -> None:
    """Raise `Wrong` if a schema is nested too deep.

    The runs of a folder often have the same tools: comparing them with the last sound ones takes a fifth of the time.
    """
    if tools == _Sound.tools:
        return
    for tool in tools:
        if is_too_deep(tool.input_schema, MAX_DEPTH):
            raise _too_deep(f"the schema of {tool.name}")
    _Sound.tools = tools


def check_extensions(extensions: Any) -> None:
    """Raise `Wrong` unless these settings of extensions have their form."""
    fields = {"name": str, "tools": list, "settings": dict}
    for extension in extensions if isinstance(extensions, list) else [None]:
        if not isinstance(extension, dict) or "name" not in extension:
            raise Wrong("settings.extensions is not a list of objects with names")
        for name, kind in fields.items():
            if not isinstance(extension.get(name, kind()), kind):
                raise Wrong(f"{name} of an extension cannot be {extension[name]!r}")


def check_message(message: Message) -> None:
    """Raise `Wrong` if arguments or metadata are nested too deep."""
    for part in message.parts:
        if type(part) is ToolCall and is_too_deep(part.arguments, MAX_DEPTH):
            raise _too_deep(f"the arguments of {part.name}")
        if isinstance(part, (Text, ToolCall, Thinking)) and part.provider_metadata is not None:
            check_depth("provider_metadata", part.provider_metadata)
