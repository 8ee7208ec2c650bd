"""Truncation of large tool results: complete in the log, truncated for the model, which can read the remainder."""

from __future__ import annotations

from msgspec.structs import replace

from agentnb.context.defaults import HEAD, TAIL
from agentnb.core.messages import Image, Message, Text, ToolResult
from agentnb.tools.read_result import READ_TOOL


def truncate_results(message: Message, most: int, *, can_read_on: bool = True) -> Message:
    """Return the message with each result above ``most`` characters cut to its start and end.

    Returns the same object if no result is longer. ``can_read_on``: True if the model has the tool that reads the remainder,
    and is to be told so.
    """
    parts = message.parts
    for index, part in enumerate(parts):  # plain loops: this runs in every round
        if type(part) is not ToolResult:
            continue
        length = 0
        for content in part.parts:
            if type(content) is Text:
                length += len(content.text)
        if length > most:
            parts = (*parts[:index], _truncated_result(part, most, can_read_on), *parts[index + 1 :])
    return message if parts is message.parts else replace(message, parts=parts)


def _truncated_result(result: ToolResult, most: int, can_read_on: bool) -> ToolResult:
    text = result.text
    head, tail = min(HEAD, most // 2), min(TAIL, most // 8)
    note = f"{len(text):,} characters, too long to show in full: characters 0 to {head:,} and the last {tail:,}."
    if can_read_on:
        note += f' Read more with {READ_TOOL}(handle="{result.call_id}", offset={head})'
    shown = Text(f"{text[:head]}\n\n[{note}]\n\n{text[-tail:]}")
    return replace(result, parts=(shown, *[part for part in result.parts if isinstance(part, Image)]))
