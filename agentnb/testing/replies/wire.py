"""What the three wires have in common: how the server asks one to check a request and to write a reply."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from agentnb.core.usage import Usage
from agentnb.testing.ids import Ids
from agentnb.testing.memory import Memory
from agentnb.testing.replies.lines import Answer, output_tokens

SIGNED = "extra_content"
"""Field of the chat wire that holds the signature of a call, or of a text, as Gemini has it."""
JSON = "application/json"
EVENTS = "text/event-stream; charset=utf-8"


@dataclass(frozen=True)
class Sse:
    """One server-sent event."""

    data: dict[str, Any] | str
    event: str | None = None

    def encoded(self) -> bytes:
        """As it goes over the line."""
        data = self.data if isinstance(self.data, str) else json.dumps(self.data, ensure_ascii=False)
        start = f"event: {self.event}\n" if self.event else ""
        return f"{start}data: {data}\n\n".encode()


@dataclass(frozen=True)
class Delivery:
    """What goes back for one request, and how badly."""

    chunks: Sequence[bytes]
    status: int = 200
    content_type: str = JSON
    headers: Mapping[str, str] = field(default_factory=dict)
    pause_before: int | None = None
    """The chunk before which it stops for a while; 0 is before the headers."""
    seconds: float = 0.0
    ping: bytes = b""
    """What is sent again and again meanwhile, after the headers."""
    again: bytes = b""
    """What is sent over and over after the chunks, without an end."""
    ending: Literal["good", "cut", "reset"] = "good"
    """Whether the end of the body is sent, or the connection breaks."""

    @property
    def streams(self) -> bool:
        """Whether the chunks go out one by one."""
        return self.content_type == EVENTS

    @property
    def in_pieces(self) -> bool:
        """Whether nobody is told beforehand how long the body is."""
        return self.streams or bool(self.ping)


@dataclass(frozen=True)
class Like:
    """The kind of server that it is like: as strict as a provider, or as lenient as a small compatible one."""

    minimal: bool = False
    traits: Mapping[str, Any] = field(default_factory=dict)
    """Where its wire differs from that of others; its row in the data file has them."""


@dataclass(frozen=True)
class Asked:
    """A request that was accepted, as far as the writer of the reply needs it."""

    body: dict[str, Any]
    ids: Ids
    memory: Memory
    sent: Usage
    """Tokens of the request: all, read from the cache, written to it."""
    like: Like = Like()

    @property
    def streams(self) -> bool:
        """Whether the reply is wanted as a stream."""
        return self.body.get("stream") is True

    @property
    def model(self) -> str:
        """The name of the model, as it was asked for."""
        return str(self.body.get("model"))

    def usage(self, answer: Answer) -> Usage:
        """Tokens of the request and of the reply, estimated unless the script says them."""
        if answer.usage is not None:
            return answer.usage
        output, thought = output_tokens(answer)
        return Usage(self.sent.input, output, self.sent.cache_read, self.sent.cache_write, thought)


Writer: TypeAlias = Callable[[Answer, Asked], list[Sse]]


@dataclass(frozen=True)
class Wire:
    """One of the three formats: pure functions, but for ids and memory of the server."""

    name: str
    path: str
    """Where requests are posted."""
    events: Writer
    """A reply as a stream."""
    whole: Callable[[Answer, Asked], dict[str, Any]]
    """A reply at once."""
    error: Callable[[int, str | None, str], dict[str, Any]]
    """The body of an error: HTTP status, the provider's name of it if not the usual, message."""
    error_event: Callable[[str, str, Asked], Sse]
    """An error inside a stream: its name and a message."""
    unknown: Callable[[list[Sse]], list[Sse]]
    """A good stream with things in it that nobody knows."""
    unknown_whole: Callable[[dict[str, Any]], dict[str, Any]]
    """A good whole reply with things in it that nobody knows."""
    overflow: str
    """How it says that the conversation is too long."""
    overflow_name: str

    def deliver(self, answer: Answer, asked: Asked) -> Delivery:
        """A good reply."""
        if asked.streams:
            return self.stream(self.events(answer, asked))
        return self.at_once(self.whole(answer, asked))

    def stream(self, events: Sequence[Sse]) -> Delivery:
        """These events."""
        return Delivery([event.encoded() for event in events], content_type=EVENTS)

    def at_once(self, body: dict[str, Any], status: int = 200, headers: Mapping[str, str] | None = None) -> Delivery:
        """A body in one piece."""
        return Delivery([json.dumps(body, ensure_ascii=False).encode()], status, JSON, headers or {})

    def refuse(self, status: int, message: str, name: str | None = None, headers: Mapping[str, str] | None = None) -> Delivery:
        """An error instead of a reply."""
        return self.at_once(self.error(status, name, message), status, headers)
