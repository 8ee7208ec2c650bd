"""Items that a `RunWriter` holds before writing them: rounds with their calls, summaries and other facts, in order."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, NamedTuple

from agentnb.core.compaction_records import Compacted
from agentnb.core.log import events as e
from agentnb.core.messages import AnyPart, Message, Text, ToolCall, ToolResult
from agentnb.core.run.rounds import SERVER_SIDE
from agentnb.core.usage import UNKNOWN

SUMMARY = "summary"
"""Author of a summary that no reply follows."""


class Fact(NamedTuple):
    """An event that has not been written yet."""

    kind: type[e.Event]
    fields: dict[str, Any]
    at: datetime | None = None


class Summary(NamedTuple):
    """A summary that replaces the messages before it, from the next reply on."""

    text: str
    first: int
    """Number of messages at the start that are still sent."""
    rounds: int
    """Number of most recent rounds that are still sent."""
    at: datetime | None = None
    kind: type[e.Event] = e.ContextCompacted


@dataclass(slots=True)
class RecordedCall:
    """A call as it appears in the run, with its result once there is one."""

    recorded_id: str
    call: ToolCall
    result: ToolResult | None = None
    at: datetime | None = None
    seconds: float | None = None
    todos: list[Fact] = field(default_factory=list)


@dataclass(slots=True)
class RecordedRound:
    """A reply and its calls."""

    parts: list[AnyPart]
    author: str
    at: datetime | None
    fields: dict[str, Any]
    calls: list[RecordedCall] = field(default_factory=list)

    @property
    def has_own_calls(self) -> bool:
        """True if it has a call that was not run by the provider itself."""
        return any(SERVER_SIDE not in (entry.call.provider_metadata or ()) for entry in self.calls)


class MessageCount:
    """Counts the messages of a run while it is written, to locate the messages that a summary replaces."""

    def __init__(self, before: int) -> None:
        """``before``: number of messages at the start, including the prompt."""
        self._messages = before
        self._rounds: list[int] = []
        """Index of the first message of each round."""

    def add_message(self) -> None:
        """Count a message sent to the agent."""
        self._messages += 1

    def add_round(self, *, with_calls: bool) -> None:
        """Count a reply and the message with the results of its calls."""
        self._rounds.append(self._messages)
        self._messages += 1 + with_calls

    def compaction(self, summary: Summary) -> Fact:
        """Return the event for a summary, which replaces all earlier messages except those that are still sent."""
        kept = self._rounds[-summary.rounds] if 0 < summary.rounds <= len(self._rounds) else self._messages
        first = min(summary.first, kept)
        compacted = Compacted(first, kept, kept - first, summary.text)
        fields = {"why": "recorded", "compacted": compacted, "usage": UNKNOWN, "seconds": None}
        return Fact(e.ContextCompacted, fields, summary.at)


def as_message(summary: Summary) -> Fact:
    """Convert a summary that no reply follows to a message."""
    message = Message("user", (Text(summary.text),), SUMMARY)
    fields = {"command": "say", "text": summary.text, "message": message, "by_person": False}
    return Fact(e.CommandReceived, fields, summary.at)
