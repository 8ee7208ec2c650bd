"""Conversations as they are prepared, made by hand or by hypothesis: calls and results, words, and pieces that fit nowhere."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import strategies as st

from agentnb.core.messages import Message, Text, ToolCall, ToolResult


def words(role: str, text: str = "Well.") -> Message:
    return Message(role, (Text(text),))  # type: ignore[arg-type]


def asks(*ids: str, text: str = "") -> Message:
    """A reply with a call for each of these ids."""
    said = (Text(text),) if text else ()
    return Message("assistant", (*said, *[ToolCall("look", {"n": number}, one) for number, one in enumerate(ids)]))


def results(*ids: str, text: str = "seen") -> Message:
    return Message("tool", tuple(ToolResult(one, "look", (Text(text),)) for one in ids))


def rounds(count: int, start: int = 0) -> list[Message]:
    """So many rounds of one call each: two messages a round."""
    return [one for number in range(start, start + count) for one in (asks(f"c{number}"), results(f"c{number}"))]


def calls_in(messages: Sequence[Message]) -> list[str]:
    return [call.id for message in messages for call in message.calls]


def results_in(messages: Sequence[Message]) -> list[str]:
    return [part.call_id for message in messages for part in message.parts if isinstance(part, ToolResult)]


def orphans(messages: Sequence[Message]) -> set[str]:
    """Results without their call before them."""
    known: set[str] = set()
    found: set[str] = set()
    for message in messages:
        known.update(call.id for call in message.calls)
        found |= set(results_in([message])) - known
    return found


class StoredMessages:
    """As much of a run as a conversation looks at."""

    open_round = None
    compacted = None
    conversation_todos = ()
    tools = ()

    def __init__(self) -> None:
        self.messages: list[Message] = []


IDS = st.sampled_from([f"c{number}" for number in range(6)])
ANY_MESSAGE = st.one_of(
    st.builds(words, st.sampled_from(["user", "assistant"])),
    st.lists(IDS, min_size=1, max_size=2, unique=True).map(lambda ids: asks(*ids)),
    st.lists(IDS, min_size=1, max_size=2, unique=True).map(lambda ids: results(*ids)),
)
ANY_HISTORY = st.lists(ANY_MESSAGE, min_size=1, max_size=14)
"""Every kind of message list: results far from their calls, repeated results, results without calls, calls without results."""


@st.composite
def whole_histories(draw: st.DrawFn) -> list[Message]:
    """As they are prepared: a message of the person first, sides that alternate, each call answered right behind it."""
    made, number = [words("user", "go")], 0
    for count in draw(st.lists(st.integers(0, 3), max_size=12)):
        ids = [f"c{number + one}" for one in range(count)]
        number += count
        made += [asks(*ids), results(*ids)] if ids else [words("assistant"), words("user", "More.")]
    return made
