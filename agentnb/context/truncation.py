"""Leaving out the oldest messages, whole pairs of calls and results at a time."""

from __future__ import annotations

from collections.abc import Sequence

from agentnb.core.messages import Message, ToolResult


def truncated(messages: Sequence[Message], most: int) -> Sequence[Message]:
    """The first message and the newest, ``most`` in all; more where a result that is kept has its call further back.

    The very sequence if there are no more than that.
    """
    start = kept_from(messages, most)
    return messages if start <= 1 else [messages[0], *messages[start:]]


def kept_from(messages: Sequence[Message], most: int) -> int:
    """The place of the first message that is kept besides the very first; 1 or less if all are."""
    if len(messages) <= most:
        return 0
    return with_their_calls(messages, len(messages) - most + 1)


def with_their_calls(messages: Sequence[Message], start: int) -> int:
    """``start``, or an earlier place, from which on every result has its call too. (Until nothing more is moved: a message
    that comes in may bring results of its own.)
    """
    while (earlier := _place_of_calls(messages, start)) < start:
        start = earlier
    return start


def _place_of_calls(messages: Sequence[Message], start: int) -> int:
    missing = _without_calls(messages[start:])
    place = start
    while missing and place > 1:
        place -= 1
        found = missing & {call.id for call in messages[place].calls}
        if found:
            missing -= found
            start = place
    return start


def _without_calls(messages: Sequence[Message]) -> set[str]:
    """The ids of results before which no call of that id stands. (One may stand behind: ids come twice in odd histories.)"""
    called: set[str] = set()
    missing: set[str] = set()
    for message in messages:
        missing |= {part.call_id for part in message.parts if isinstance(part, ToolResult)} - called
        called |= {call.id for call in message.calls}
    return missing
