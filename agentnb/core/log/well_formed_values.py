"""Validation of values in a log that was read: they must fit into tables and be displayable and writable everywhere."""

from __future__ import annotations

from typing import Any

from agentnb.core.messages import Message, Text, Thinking, ToolCall
from agentnb.core.request import ToolSpec
from agentnb.core.schema.nesting import is_too_deep

MAX_DEPTH = 300
"""Maximum nesting of data that every reader and writer supports; agentnb itself now writes no more than 100 levels."""


class Wrong(Exception):
    """The reason why an event is invalid at its position in the log."""


class _Sound:
    """The most recent tools found to have valid schemas, across all logs."""

    tools: tuple[ToolSpec, ...] = ()


def check_depth(name: str, value: Any) -> None:
    """Raise `Wrong` if this data is nested too deeply."""
    if value and is_too_deep(value, MAX_DEPTH):
        raise _too_deep(name)


def _too_deep(name: str) -> Wrong:
    return Wrong(f"{name} is nested too deeply")


def check_tools(tools: tuple[ToolSpec, ...]) -> None:
    """Raise `Wrong` if a schema is nested too deeply.

    The runs of a folder often share their tools, and comparing tools with the most recent valid ones takes a fifth of the time
    of a check.
    """
    if tools == _Sound.tools:
        return
    for tool in tools:
        if is_too_deep(tool.input_schema, MAX_DEPTH):
            raise _too_deep(f"the schema of {tool.name}")
    _Sound.tools = tools


def check_extensions(extensions: Any) -> None:
    """Raise `Wrong` if these settings of extensions are malformed."""
    fields = {"name": str, "tools": list, "settings": dict}
    for extension in extensions if isinstance(extensions, list) else [None]:
        if not isinstance(extension, dict) or "name" not in extension:
            raise Wrong("settings.extensions is not a list of objects with names")
        for name, kind in fields.items():
            if not isinstance(extension.get(name, kind()), kind):
                raise Wrong(f"an extension has an invalid {name}: {extension[name]!r}")


def check_message(message: Message) -> None:
    """Raise `Wrong` if arguments or metadata are nested too deeply."""
    for part in message.parts:
        if type(part) is ToolCall and is_too_deep(part.arguments, MAX_DEPTH):
            raise _too_deep(f"the arguments of {part.name}")
        if isinstance(part, (Text, ToolCall, Thinking)) and part.provider_metadata is not None:
            check_depth("provider_metadata", part.provider_metadata)
