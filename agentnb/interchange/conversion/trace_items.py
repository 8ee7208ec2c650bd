"""What a `RunWriter` has taken of a trace and not yet written: rounds with their calls, summaries and other facts, in order."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, NamedTuple

from agentnb.core.compaction import Compacted
from agentnb.core.log import events as e
from agentnb.core.messages import AnyPart, Message, Text, ToolCall, ToolResult
from agentnb.core.run.rounds import SERVER_SIDE
from agentnb.core.usage import UNKNOWN

SUMMARY = "summary"
"""Author of a summary to which no reply came."""


class Fact(NamedTuple):
    """An event that is not written yet."""

    kind: type[e.Event]
    fields: dict[str, Any]
    at: datetime | None = None


class Summary(NamedTuple):
    """A summary that the model is sent from its next reply on, in the place of the messages before it."""

    text: str
    first: int
    """How many messages at the start are still sent."""
    rounds: int
    """How many of the last rounds are still sent."""
    at: datetime | None = None
    kind: type[e.Event] = e.ContextCompacted


@dataclass(slots=True)
class RecordedCall:
    """A call as it is in the run, and its result once there is one."""

    recorded_id: str
    call: ToolCall
    result: ToolResult | None = None
    at: datetime | None = None
    seconds: float | None = None
    todos: list[Fact] = field(default_factory=list)


@dataclass(slots=True)
class RecordedRound:
    """A reply with its calls."""

    parts: list[AnyPart]
    author: str
    at: datetime | None
    fields: dict[str, Any]
    calls: list[RecordedCall] = field(default_factory=list)

    @property
    def has_own_calls(self) -> bool:
        """Whether it made a call that the provider did not run itself."""
        return any(SERVER_SIDE not in (entry.call.provider_metadata or ()) for entry in self.calls)


class MessageCount:
    """Counts the messages of a run while it is written, to say which of them a summary replaces."""

    def __init__(self, before: int) -> None:
        """``before``: messages that the run begins with, its prompt among them."""
        self._messages = before
        self._rounds: list[int] = []
        """Index of the first message of each round."""

    def add_message(self) -> None:
        """Count what was said to the agent."""
        self._messages += 1

    def add_round(self, *, with_calls: bool) -> None:
        """Count a reply, and the message with the results of its calls."""
        self._rounds.append(self._messages)
        self._messages += 1 + with_calls

    def compacted(self, summary: Summary) -> Fact:
        """Return the event of a summary: it replaces all messages before it, but for those that are still sent."""
        kept = self._rounds[-summary.rounds] if 0 < summary.rounds <= len(self._rounds) else self._messages
        first = min(summary.first, kept)
        compacted = Compacted(first, kept, kept - first, summary.text)
        fields = {"why": "recorded", "compacted": compacted, "usage": UNKNOWN, "seconds": None}
        return Fact(e.ContextCompacted, fields, summary.at)


def as_message(summary: Summary) -> Fact:
    """Return a summary that no reply followed as a message."""
    message = Message("user", (Text(summary.text),), SUMMARY)
    fields = {"command": "say", "text": summary.text, "message": message, "by_person": False}
    return Fact(e.CommandReceived, fields, summary.at)
