"""Provider faults, as lines of a script."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from agentnb.testing.replies import write_messages, write_responses
from agentnb.testing.replies.lines import as_answer
from agentnb.testing.replies.reply_format import Asked, Delivery, Sse, Wire
from agentnb.testing.replies.write_chat import sloppy_events, sloppy_whole

USUAL = "One two three four five six seven"
"""The reply that a fault affects, unless the script specifies one."""
PINGS: dict[str, Sse] = {
    "messages": Sse({"type": "ping"}, "ping"),
    "chat": Sse({"choices": [{"index": 0, "delta": {"content": ""}, "finish_reason": None}]}),
    "responses": Sse({"type": "keepalive", "sequence_number": 999}, "keepalive"),
}
"""Keep-alive events of each API."""
COMMENT = b": keep-alive\n\n"
STATUS_OF = {"overloaded_error": 529, "rate_limit_error": 429, "rate_limit_exceeded": 429}


@dataclass(frozen=True)
class Misbehaviour:
    """A faulty reply."""

    def deliver(self, wire: Wire, asked: Asked) -> Delivery:
        """Return the delivery that replaces a good reply. Each kind of fault implements this."""
        raise NotImplementedError(f"{type(self).__name__} has no deliver() method")


@dataclass(frozen=True)
class Status(Misbehaviour):
    """An HTTP error with this status instead of a reply.

    ``retry_after``: seconds or a date; ``type``: the provider's name for the error, if not the usual one for the status.
    """

    code: int
    message: str = ""
    retry_after: float | str | None = None
    type: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict)

    def deliver(self, wire: Wire, asked: Asked) -> Delivery:
        """Return the error in the format of the API."""
        headers = dict(self.headers)
        if self.retry_after is not None:
            headers["retry-after"] = str(self.retry_after)
        return wire.refuse(
            self.code, self.message or f"This request was answered with {self.code} on purpose.", self.type, headers
        )


@dataclass(frozen=True)
class Overflow(Misbehaviour):
    """The error for a conversation that is too long, worded as in each API."""

    def deliver(self, wire: Wire, asked: Asked) -> Delivery:
        """Return the error; a local server has its own wording."""
        if asked.like.minimal:
            message = "the request exceeds the available context size (4096 tokens), try increasing it"
            return wire.refuse(400, message, "exceed_context_size_error")
        return wire.refuse(400, wire.overflow, wire.overflow_name)


def overflow() -> Overflow:
    """Return the error for a conversation that is too long."""
    return Overflow()


@dataclass(frozen=True)
class ErrorInStream(Misbehaviour):
    """An error after some good events of a stream.

    In the Responses API it is an ``error`` event or, with ``failed=True``, a ``response.failed`` event. Without streaming, the
    reply is just the error.
    """

    type: str = "overloaded_error"
    after: int = 2
    line: Any = USUAL
    message: str = "Overloaded"
    failed: bool = False

    def deliver(self, wire: Wire, asked: Asked) -> Delivery:
        """Return the first events of the line, then the error."""
        if not asked.streams:
            return wire.refuse(STATUS_OF.get(self.type, 500), self.message, self.type)
        write = write_responses.failed_event if self.failed and wire.name == "responses" else wire.error_event
        events = wire.events(as_answer(self.line), asked)[: self.after]
        return wire.stream([*events, write(self.type, self.message, asked)])


@dataclass(frozen=True)
class Stall(Misbehaviour):
    """A pause of some seconds after some events, followed by the rest. With ``after=0``, the pause comes even before the
    headers.

    If ``after`` exceeds the number of events, only the end of the body is delayed. With ``pings``, the server sends keep-alive
    signals during the pause once it has sent headers: stream ``comments``, or ``events`` without content. Without streaming,
    both are blank lines before the reply. The pause ends at once when the server closes or the client disconnects.
    """

    seconds: float = 30.0
    after: int = 2
    line: Any = USUAL
    pings: Literal["", "comments", "events"] = ""

    def deliver(self, wire: Wire, asked: Asked) -> Delivery:
        """Return the line with a pause in it."""
        good = wire.deliver(as_answer(self.line), asked)
        ping = self._ping(wire) if good.streams else b"\n" * bool(self.pings)
        return replace(good, pause_before=self.after if good.streams else 0, seconds=self.seconds, ping=ping)

    def _ping(self, wire: Wire) -> bytes:
        return {"": b"", "comments": COMMENT, "events": PINGS[wire.name].encode()}[self.pings]


@dataclass(frozen=True)
class Endless(Misbehaviour):
    """A stream that never ends: the last piece of the line's text, thinking or arguments repeats forever.

    The stream ends when the server is closed or the client disconnects. Without streaming, the reply is the line itself.
    """

    line: Any = USUAL

    def deliver(self, wire: Wire, asked: Asked) -> Delivery:
        """Return the line up to its last piece, followed by endless repetitions of that piece, many per write."""
        answer = as_answer(self.line)
        if not asked.streams:
            return wire.deliver(answer, asked)
        events = wire.events(answer, asked)
        last = max(index for index, event in enumerate(events) if _holds_a_piece(event.data))
        return replace(wire.stream(events[: last + 1]), again=events[last].encode() * 100)


def _holds_a_piece(data: Any) -> bool:
    """Return whether the event has a piece of text, thinking or arguments."""
    if not isinstance(data, dict):
        return False
    if choices := data.get("choices"):
        delta = choices[0]["delta"]
        called = [call["function"].get("arguments") for call in delta.get("tool_calls") or ()]
        return any([delta.get("content"), delta.get("reasoning_content"), *called])
    kind = data["delta"].get("type") if data.get("type") == "content_block_delta" else data.get("type")
    return str(kind).endswith((".delta", "text_delta", "thinking_delta", "input_json_delta"))


@dataclass(frozen=True)
class Cut(Misbehaviour):
    """A connection closed after some events, without the end of the body; with ``after=0``, without any answer.

    With ``reset=True`` the connection is reset (RST), and data in transit may be lost.
    """

    after: int = 2
    line: Any = USUAL
    reset: bool = False

    def deliver(self, wire: Wire, asked: Asked) -> Delivery:
        """Return the beginning of the line."""
        good = wire.deliver(as_answer(self.line), asked)
        chunks = _beginning(good, self.after) if self.after else []
        return replace(good, chunks=chunks, ending="reset" if self.reset else "cut")


@dataclass(frozen=True)
class EndEarly(Misbehaviour):
    """A body that ends properly, but before the reply is complete."""

    after: int = 2
    line: Any = USUAL

    def deliver(self, wire: Wire, asked: Asked) -> Delivery:
        """Return the beginning of the line."""
        good = wire.deliver(as_answer(self.line), asked)
        return replace(good, chunks=_beginning(good, self.after))


@dataclass(frozen=True)
class BrokenJson(Misbehaviour):
    """Invalid JSON after some good events."""

    after: int = 2
    line: Any = USUAL

    def deliver(self, wire: Wire, asked: Asked) -> Delivery:
        """Return the line with one event truncated."""
        if not asked.streams:
            good = wire.deliver(as_answer(self.line), asked)
            return replace(good, chunks=_beginning(good, self.after))
        events = wire.events(as_answer(self.line), asked)
        at = min(self.after, len(events) - 1)
        if events[at].event == "ping":
            at += 1  # nobody reads the content of a ping
        events.insert(at, Sse('{"type": "content_block_delta", "ind', events[at].event))
        return wire.stream(events)


@dataclass(frozen=True)
class UnknownEvent(Misbehaviour):
    """A good reply that contains unknown events, blocks, deltas and fields.

    The blocks may be sent back, since a provider recognizes its own.
    """

    line: Any = USUAL

    def deliver(self, wire: Wire, asked: Asked) -> Delivery:
        """Return the line with unknown content."""
        answer = as_answer(self.line)
        for block in (write_messages.HOLOGRAM, write_messages.DARK_HOLOGRAM, write_responses.HOLOGRAM):
            asked.memory.sent_block(block)
        if asked.streams:
            return wire.stream(wire.unknown(wire.events(answer, asked)))
        return wire.at_once(wire.unknown_whole(wire.whole(answer, asked)))


@dataclass(frozen=True)
class Sloppy(Misbehaviour):
    """A reply from a careless Chat Completions server; for other APIs, a good reply.

    Each call is complete in one chunk; ``reasoning`` replaces ``reasoning_content``; there is no usage; and the stop reason is
    ``stop`` despite calls. The calls have no ``index``, or all have the same one, set here, and may have no ids.
    """

    line: Any = USUAL
    index: int | None = None
    ids: bool = False

    def deliver(self, wire: Wire, asked: Asked) -> Delivery:
        """Return the line in the careless format."""
        answer = as_answer(self.line)
        if wire.name != "chat":
            return wire.deliver(answer, asked)
        if asked.streams:
            return wire.stream(sloppy_events(answer, asked, self.index, self.ids))
        return wire.at_once(sloppy_whole(answer, asked, self.index, self.ids))


NOT_COUNTED: Any = object()
"""Placeholder for a count that the reply lacks."""


@dataclass(frozen=True)
class Miscount(Misbehaviour):
    """A good reply whose usage reports these values as its input and output tokens: `NOT_COUNTED`, None, text and so on.

    A value that is not set is counted as usual. ``more``: other fields of the usage, replaced in the same way.
    """

    line: Any = USUAL
    input: Any = ...
    output: Any = ...
    more: Mapping[str, Any] = field(default_factory=dict)

    def deliver(self, wire: Wire, asked: Asked) -> Delivery:
        """Return the line with the wrong counts."""
        answer = as_answer(self.line)
        sent, received = ("prompt_tokens", "completion_tokens") if wire.name == "chat" else ("input_tokens", "output_tokens")
        sides = {sent: self.input, received: self.output}
        named = {name: value for name, value in sides.items() if value is not ...}
        changes = {**named, "total_tokens": NOT_COUNTED, **self.more}
        if not asked.streams:
            return wire.at_once(_change_counts(wire.whole(answer, asked), changes))
        events = wire.events(answer, asked)
        return wire.stream([replace(event, data=_change_counts(event.data, changes)) for event in events])


def _change_counts(data: Any, changes: Mapping[str, Any]) -> Any:
    """Return the data with these changes applied to each usage in it."""
    if not isinstance(data, dict):
        return data
    changed = {name: _change_counts(value, changes) for name, value in data.items()}
    if isinstance(usage := changed.get("usage"), dict):
        changed["usage"] = {name: value for name, value in {**usage, **changes}.items() if value is not NOT_COUNTED}
    return changed


@dataclass(frozen=True)
class NotJson(Misbehaviour):
    """A gateway's web page instead of a reply."""

    status: int = 502

    def deliver(self, wire: Wire, asked: Asked) -> Delivery:
        """Return an HTML page."""
        page = f"<html><head><title>{self.status} Bad Gateway</title></head><body>Bad Gateway</body></html>"
        return Delivery([page.encode()], self.status, "text/html")


@dataclass(frozen=True)
class EmptyReply(Misbehaviour):
    """A valid reply with no content."""

    def deliver(self, wire: Wire, asked: Asked) -> Delivery:
        """Return the beginning and the end of a reply."""
        return wire.deliver(as_answer([]), asked)


def _beginning(good: Delivery, after: int) -> list[bytes]:
    """Return the first chunks, or the first half of an undivided body."""
    if good.streams:
        return list(good.chunks[:after])
    body = b"".join(good.chunks)
    return [body[: len(body) // 2]]
