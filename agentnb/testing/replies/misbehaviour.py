"""What can go wrong at a provider, as lines of a script."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from agentnb.testing.replies import write_messages, write_responses
from agentnb.testing.replies.lines import as_answer
from agentnb.testing.replies.wire import Asked, Delivery, Sse, Wire
from agentnb.testing.replies.write_chat import sloppy_events, sloppy_whole

USUAL = "One two three four five six seven"
"""The reply that goes wrong, where the script names none."""
PINGS: dict[str, Sse] = {
    "messages": Sse({"type": "ping"}, "ping"),
    "chat": Sse({"choices": [{"index": 0, "delta": {"content": ""}, "finish_reason": None}]}),
    "responses": Sse({"type": "keepalive", "sequence_number": 999}, "keepalive"),
}
"""Events that only say that the server is there, as each wire has them."""
COMMENT = b": keep-alive\n\n"
STATUS_OF = {"overloaded_error": 529, "rate_limit_error": 429, "rate_limit_exceeded": 429}


@dataclass(frozen=True)
class Misbehaviour:
    """A reply that goes wrong."""

    def deliver(self, wire: Wire, asked: Asked) -> Delivery:
        """What goes over the line instead of a good reply. Each kind of misbehaviour has its own."""
        raise NotImplementedError(f"{type(self).__name__} has no deliver")


@dataclass(frozen=True)
class Status(Misbehaviour):
    """An error of this HTTP status instead of a reply.

    ``retry_after`` in seconds or as a date; ``type`` is the provider's name of the error, if not the usual for the status.
    """

    code: int
    message: str = ""
    retry_after: float | str | None = None
    type: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict)

    def deliver(self, wire: Wire, asked: Asked) -> Delivery:
        """The error in the words of the wire."""
        headers = dict(self.headers)
        if self.retry_after is not None:
            headers["retry-after"] = str(self.retry_after)
        return wire.refuse(
            self.code, self.message or f"This request was answered with {self.code} on purpose.", self.type, headers
        )


@dataclass(frozen=True)
class Overflow(Misbehaviour):
    """The error that says the conversation is too long, in the words of each wire."""

    def deliver(self, wire: Wire, asked: Asked) -> Delivery:
        """A local server has words of its own."""
        if asked.like.minimal:
            message = "the request exceeds the available context size (4096 tokens), try increasing it"
            return wire.refuse(400, message, "exceed_context_size_error")
        return wire.refuse(400, wire.overflow, wire.overflow_name)


def overflow() -> Overflow:
    """The error that says the conversation is too long."""
    return Overflow()


@dataclass(frozen=True)
class ErrorInStream(Misbehaviour):
    """An error after some events of a stream that began well.

    On the Responses wire it comes as an ``error`` event, or with ``failed=True`` as ``response.failed``.
    A reply that was not to be streamed is the error alone.
    """

    type: str = "overloaded_error"
    after: int = 2
    line: Any = USUAL
    message: str = "Overloaded"
    failed: bool = False

    def deliver(self, wire: Wire, asked: Asked) -> Delivery:
        """The first events of the line, then the error."""
        if not asked.streams:
            return wire.refuse(STATUS_OF.get(self.type, 500), self.message, self.type)
        write = write_responses.failed_event if self.failed and wire.name == "responses" else wire.error_event
        events = wire.events(as_answer(self.line), asked)[: self.after]
        return wire.stream([*events, write(self.type, self.message, asked)])


@dataclass(frozen=True)
class Stall(Misbehaviour):
    """Silence of some seconds after some events; then the rest comes. With ``after=0`` not even headers come before it.

    After more events than there are, all that is missing is the end of the body.

    With ``pings`` the server shows meanwhile that it is there, once it has sent headers: by ``comments`` of the stream, or by
    ``events`` that hold nothing of the reply. In a reply that was not to be streamed both are blank lines before it.

    It ends at once when the server is closed or the client hangs up.
    """

    seconds: float = 30.0
    after: int = 2
    line: Any = USUAL
    pings: Literal["", "comments", "events"] = ""

    def deliver(self, wire: Wire, asked: Asked) -> Delivery:
        """The line with a pause in it."""
        good = wire.deliver(as_answer(self.line), asked)
        ping = self._ping(wire) if good.streams else b"\n" * bool(self.pings)
        return replace(good, pause_before=self.after if good.streams else 0, seconds=self.seconds, ping=ping)

    def _ping(self, wire: Wire) -> bytes:
        return {"": b"", "comments": COMMENT, "events": PINGS[wire.name].encoded()}[self.pings]


@dataclass(frozen=True)
class Endless(Misbehaviour):
    """A stream that never ends: the last piece of the line's text, thinking or arguments comes again and again.

    It ends when the server is closed or the client hangs up. A reply that was not to be streamed is the line itself.
    """

    line: Any = USUAL

    def deliver(self, wire: Wire, asked: Asked) -> Delivery:
        """The line up to its last piece, and this over and over, many to a write."""
        answer = as_answer(self.line)
        if not asked.streams:
            return wire.deliver(answer, asked)
        events = wire.events(answer, asked)
        last = max(index for index, event in enumerate(events) if _holds_a_piece(event.data))
        return replace(wire.stream(events[: last + 1]), again=events[last].encoded() * 100)


def _holds_a_piece(data: Any) -> bool:
    """Whether the event has a piece of text, thinking or arguments."""
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
    """The connection is closed after some events, without the end of the body; with ``after=0`` without any answer.

    With ``reset=True`` it is torn down (RST), and what is still on its way may be lost.
    """

    after: int = 2
    line: Any = USUAL
    reset: bool = False

    def deliver(self, wire: Wire, asked: Asked) -> Delivery:
        """The beginning of the line."""
        good = wire.deliver(as_answer(self.line), asked)
        chunks = _beginning(good, self.after) if self.after else []
        return replace(good, chunks=chunks, ending="reset" if self.reset else "cut")


@dataclass(frozen=True)
class EndEarly(Misbehaviour):
    """A body that ends in order, but before the reply does."""

    after: int = 2
    line: Any = USUAL

    def deliver(self, wire: Wire, asked: Asked) -> Delivery:
        """The beginning of the line."""
        good = wire.deliver(as_answer(self.line), asked)
        return replace(good, chunks=_beginning(good, self.after))


@dataclass(frozen=True)
class BrokenJson(Misbehaviour):
    """Data that is no JSON, after some good events."""

    after: int = 2
    line: Any = USUAL

    def deliver(self, wire: Wire, asked: Asked) -> Delivery:
        """The line with one event broken in the middle."""
        if not asked.streams:
            good = wire.deliver(as_answer(self.line), asked)
            return replace(good, chunks=_beginning(good, self.after))
        events = wire.events(as_answer(self.line), asked)
        at = min(self.after, len(events) - 1)
        if events[at].event == "ping":
            at += 1  # nobody reads what a ping holds
        events.insert(at, Sse('{"type": "content_block_delta", "ind', events[at].event))
        return wire.stream(events)


@dataclass(frozen=True)
class UnknownEvent(Misbehaviour):
    """A good reply with events, blocks, deltas and fields in it that nobody knows.

    The blocks may come back: a provider knows what it sent.
    """

    line: Any = USUAL

    def deliver(self, wire: Wire, asked: Asked) -> Delivery:
        """The line and the strange things."""
        answer = as_answer(self.line)
        for block in (write_messages.HOLOGRAM, write_messages.DARK_HOLOGRAM, write_responses.HOLOGRAM):
            asked.memory.sent_block(block)
        if asked.streams:
            return wire.stream(wire.unknown(wire.events(answer, asked)))
        return wire.at_once(wire.unknown_whole(wire.whole(answer, asked)))


@dataclass(frozen=True)
class Sloppy(Misbehaviour):
    """A reply as careless servers send it on the chat wire; on the others it is a good one.

    Whole calls in one chunk, ``reasoning`` instead of ``reasoning_content``, no usage, and the end called ``stop`` although
    there are calls. Calls come without ``index``, or all with the given one; and without ids, or with.
    """

    line: Any = USUAL
    index: int | None = None
    ids: bool = False

    def deliver(self, wire: Wire, asked: Asked) -> Delivery:
        """The line, carelessly."""
        answer = as_answer(self.line)
        if wire.name != "chat":
            return wire.deliver(answer, asked)
        if asked.streams:
            return wire.stream(sloppy_events(answer, asked, self.index, self.ids))
        return wire.at_once(sloppy_whole(answer, asked, self.index, self.ids))


NOT_COUNTED: Any = object()
"""Stands for a count that is not in the reply at all."""


@dataclass(frozen=True)
class Miscount(Misbehaviour):
    """A good reply whose usage has these values instead of its tokens of input and output: `NOT_COUNTED`, None, a text ...

    A side that is not named is counted as ever. ``more`` are other fields of the usage, replaced in the same way.
    """

    line: Any = USUAL
    input: Any = ...
    output: Any = ...
    more: Mapping[str, Any] = field(default_factory=dict)

    def deliver(self, wire: Wire, asked: Asked) -> Delivery:
        """The line, miscounted."""
        answer = as_answer(self.line)
        sent, received = ("prompt_tokens", "completion_tokens") if wire.name == "chat" else ("input_tokens", "output_tokens")
        sides = {sent: self.input, received: self.output}
        named = {name: value for name, value in sides.items() if value is not ...}
        changes = {**named, "total_tokens": NOT_COUNTED, **self.more}
        if not asked.streams:
            return wire.at_once(_miscounted(wire.whole(answer, asked), changes))
        events = wire.events(answer, asked)
        return wire.stream([replace(event, data=_miscounted(event.data, changes)) for event in events])


def _miscounted(data: Any, changes: Mapping[str, Any]) -> Any:
    """The data with these changes in each of its usages."""
    if not isinstance(data, dict):
        return data
    changed = {name: _miscounted(value, changes) for name, value in data.items()}
    if isinstance(usage := changed.get("usage"), dict):
        changed["usage"] = {name: value for name, value in {**usage, **changes}.items() if value is not NOT_COUNTED}
    return changed


@dataclass(frozen=True)
class NotJson(Misbehaviour):
    """A page of a gateway instead of a reply."""

    status: int = 502

    def deliver(self, wire: Wire, asked: Asked) -> Delivery:
        """HTML."""
        page = f"<html><head><title>{self.status} Bad Gateway</title></head><body>Bad Gateway</body></html>"
        return Delivery([page.encode()], self.status, "text/html")


@dataclass(frozen=True)
class EmptyReply(Misbehaviour):
    """A reply in good order with nothing in it."""

    def deliver(self, wire: Wire, asked: Asked) -> Delivery:
        """The beginning and the end of a reply."""
        return wire.deliver(as_answer([]), asked)


def _beginning(good: Delivery, after: int) -> list[bytes]:
    """The first chunks; of a body that is one piece its first half."""
    if good.streams:
        return list(good.chunks[:after])
    body = b"".join(good.chunks)
    return [body[: len(body) // 2]]
