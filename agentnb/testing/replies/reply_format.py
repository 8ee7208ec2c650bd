"""The interface of the three APIs, used by the server to check requests and write replies."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from agentnb.core.messages import JsonObject
from agentnb.core.usage import Usage
from agentnb.testing.ids import Ids
from agentnb.testing.memory import Memory
from agentnb.testing.replies.lines import Answer, output_tokens

SIGNED = "extra_content"
"""The Chat Completions field that holds the signature of a call or a text, as in Gemini."""
JSON = "application/json"
EVENTS = "text/event-stream; charset=utf-8"


@dataclass(frozen=True)
class Sse:
    """A server-sent event."""

    data: JsonObject | str
    event: str | None = None

    def encode(self) -> bytes:
        """Encode it for the stream."""
        data = self.data if isinstance(self.data, str) else json.dumps(self.data, ensure_ascii=False)
        start = f"event: {self.event}\n" if self.event else ""
        return f"{start}data: {data}\n\n".encode()


@dataclass(frozen=True)
class Delivery:
    """The response to one request, including its faults."""

    chunks: Sequence[bytes]
    status: int = 200
    content_type: str = JSON
    headers: Mapping[str, str] = field(default_factory=dict)
    pause_before: int | None = None
    """Index of the chunk to pause before; 0 means before the headers."""
    seconds: float = 0.0
    ping: bytes = b""
    """Data sent repeatedly during the pause, if the headers have been sent."""
    again: bytes = b""
    """Data sent endlessly after the chunks."""
    ending: Literal["good", "cut", "reset"] = "good"
    """End of the body: complete, missing, or a reset connection."""

    @property
    def streams(self) -> bool:
        """True if the chunks are sent one by one."""
        return self.content_type == EVENTS

    @property
    def in_pieces(self) -> bool:
        """True if the body's length is not announced."""
        return self.streams or bool(self.ping)


@dataclass(frozen=True)
class Like:
    """The kind of server to imitate: as strict as a provider, or as lenient as a small compatible one."""

    minimal: bool = False
    traits: Mapping[str, Any] = field(default_factory=dict)
    """Deviations of its API, from its row in the data file."""


@dataclass(frozen=True)
class Asked:
    """An accepted request, with the data for writing the reply."""

    body: JsonObject
    ids: Ids
    memory: Memory
    sent: Usage
    """Tokens of the request: the total, those read from the cache, and those written to it."""
    like: Like = Like()

    @property
    def streams(self) -> bool:
        """True if the reply is to be streamed."""
        return self.body.get("stream") is True

    @property
    def model(self) -> str:
        """The requested model name."""
        return str(self.body.get("model"))

    def usage(self, answer: Answer) -> Usage:
        """Return the tokens of the request and the reply, estimated unless the script sets them."""
        if answer.usage is not None:
            return answer.usage
        output, thought = output_tokens(answer)
        return Usage(self.sent.input, output, self.sent.cache_read, self.sent.cache_write, thought)


Writer: TypeAlias = Callable[[Answer, Asked], list[Sse]]


@dataclass(frozen=True)
class Wire:
    """One of the three APIs: pure functions, apart from the server's ids and memory."""

    name: str
    path: str
    """Path for requests."""
    events: Writer
    """Writes a streamed reply."""
    whole: Callable[[Answer, Asked], JsonObject]
    """Writes an unstreamed reply."""
    error: Callable[[int, str | None, str], JsonObject]
    """Writes an error body, given the HTTP status, the provider's error name (None for the usual one), and a message."""
    error_event: Callable[[str, str, Asked], Sse]
    """Writes an error within a stream, given its name and a message."""
    unknown: Callable[[list[Sse]], list[Sse]]
    """Adds unknown content to a good stream."""
    unknown_whole: Callable[[JsonObject], JsonObject]
    """Adds unknown content to a good unstreamed reply."""
    overflow: str
    """Its error message for an overlong conversation."""
    overflow_name: str

    def deliver(self, answer: Answer, asked: Asked) -> Delivery:
        """Return a good reply."""
        if asked.streams:
            return self.stream(self.events(answer, asked))
        return self.at_once(self.whole(answer, asked))

    def stream(self, events: Sequence[Sse]) -> Delivery:
        """Return a stream of these events."""
        return Delivery([event.encode() for event in events], content_type=EVENTS)

    def at_once(self, body: JsonObject, status: int = 200, headers: Mapping[str, str] | None = None) -> Delivery:
        """Return a body in one piece."""
        return Delivery([json.dumps(body, ensure_ascii=False).encode()], status, JSON, headers or {})

    def refuse(self, status: int, message: str, name: str | None = None, headers: Mapping[str, str] | None = None) -> Delivery:
        """Return an error instead of a reply."""
        return self.at_once(self.error(status, name, message), status, headers)
