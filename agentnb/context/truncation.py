"""Truncation of the oldest messages, which never separates a call from its result."""

from __future__ import annotations

from collections.abc import Sequence

from agentnb.core.messages import Message, ToolResult


def truncate_messages(messages: Sequence[Message], most: int) -> Sequence[Message]:
    """Return the first message and the newest ones, ``most`` in total; more if the call of a kept result is further
    back.

    Returns the same object if it has no more than ``most`` messages.
    """
    start = kept_from(messages, most)
    return messages if start <= 1 else [messages[0], *messages[start:]]


def kept_from(messages: Sequence[Message], most: int) -> int:
    """Return the index of the first kept message after the very first one; 1 or less if all are kept."""
    if len(messages) <= most:
        return 0
    return include_calls(messages, len(messages) - most + 1)


def include_calls(messages: Sequence[Message], start: int) -> int:
    """Return ``start``, or the nearest earlier index from which every result has its call.

    Repeats until nothing changes, since an added message may itself have results.
    """
    while (earlier := _place_of_calls(messages, start)) < start:
        start = earlier
    return start


def _place_of_calls(messages: Sequence[Message], start: int) -> int:
    missing = _without_calls(messages[start:])
    index = start
    while missing and index > 1:
        index -= 1
        calls = missing & {call.id for call in messages[index].calls}
        if calls:
            missing -= calls
            start = index
    return start


def _without_calls(messages: Sequence[Message]) -> set[str]:
    """Return the ids of results without an earlier call with that id. (A later one may exist, since ids may repeat in unusual
    histories.)
    """
    called: set[str] = set()
    missing: set[str] = set()
    for message in messages:
        missing |= {part.call_id for part in message.parts if isinstance(part, ToolResult)} - called
        called |= {call.id for call in message.calls}
    return missing
