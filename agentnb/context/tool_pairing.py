"""Pairing of calls and results: each call is answered once, in the next message, and every result belongs to a call."""

from __future__ import annotations

from collections.abc import Sequence

from agentnb.core.messages import Message, Text, ToolCall, ToolResult

LOST = "The result of this call was lost. It may or may not have taken effect: check before you rely on it."


def answers(calls: Sequence[ToolCall], message: Message | None) -> Message:
    """Return the answer to these calls: the message itself if it answers each of them once and has no other results.

    Otherwise, missing results are marked as lost; results without a call, and all but the first result for a call, are left
    out.
    """
    parts = () if message is None else message.parts
    if message is not None and len(parts) == len(calls):
        for part, call in zip(parts, calls, strict=True):  # a plain loop: this runs in every round
            if type(part) is not ToolResult or part.call_id != call.id:
                break
        else:
            return message
    by_call = {part.call_id: part for part in reversed(parts) if isinstance(part, ToolResult)}
    results = [
        by_call.get(call.id) or ToolResult(call.id, call.name, (Text(LOST),), is_error=True, error_code="lost")
        for call in calls
    ]
    others = [part for part in parts if not isinstance(part, ToolResult)]
    return Message("tool" if results else "user", (*results, *others), "" if message is None else message.author)


def are_whole(messages: Sequence[Message]) -> bool:
    """True if every call is answered in the next message and every result follows its call."""
    open_calls: set[str] = set()
    for message in messages:
        answered = {part.call_id for part in message.parts if isinstance(part, ToolResult)}
        if answered != open_calls:
            return False
        open_calls = {call.id for call in message.calls}
    return not open_calls
