"""Endless lines and bodies of a server: abandoned before memory runs out."""

from __future__ import annotations

import gzip
from dataclasses import dataclass, replace

import pytest
from quick_models import FORMATS, ask

from agentnb.errors import BrokenReply
from agentnb.models import Reply
from agentnb.models.transport import response_limit
from agentnb.testing import Answer, LoopbackServer, Misbehaviour
from agentnb.testing.replies.reply_format import EVENTS, JSON, Asked, Delivery, Wire


@dataclass(frozen=True)
class Unending(Misbehaviour):
    """A body that never ends."""

    start: bytes
    again: bytes
    content_type: str

    def deliver(self, wire: Wire, asked: Asked) -> Delivery:
        return replace(wire.stream([]), chunks=[self.start], again=self.again, content_type=self.content_type)


UNENDING = {
    "a line of a stream": Unending(b'data: {"choices": [{"delta": {"content": "', b"word " * 1000, EVENTS),
    "an event": Unending(b'data: {"choices": [\n', b"data: {},\n" * 1000, EVENTS),
    "a comment in a stream": Unending(b": ", b"alive " * 1000, EVENTS),
}


@pytest.mark.slow("loads the libraries of the providers, where it is the first to")
def test_endless_chunk_is_abandoned_and_not_requested_again(subtests: pytest.Subtests, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(response_limit, "MAX_PIECE", 100_000)
    for wire in FORMATS:
        for name, unending in UNENDING.items():
            with subtests.test(name, wire=wire):
                with LoopbackServer([unending]) as server:
                    *_, error = ask(server, wire)
                assert isinstance(error, BrokenReply) and "in one piece" in error.what
                assert len(server.requests) == 1


@dataclass(frozen=True)
class Large(Misbehaviour):
    """A good reply whose body is this long."""

    size: int
    level: int | None = None
    """Compression ratio."""
    status: int = 200

    def deliver(self, wire: Wire, asked: Asked) -> Delivery:
        good = wire.at_once(wire.whole(Answer("Here."), asked), self.status)
        body = b"".join(good.chunks) + b" \n" * (self.size // 2)
        if self.level is not None:
            return Delivery([gzip.compress(body, self.level)], self.status, JSON, {"content-encoding": "gzip"})
        return replace(good, chunks=[body])


_LARGE = (Large(40_000), Large(40_000, level=0), Large(40_000, level=9), Large(40_000, status=400))


def test_response_piece_size_is_limited(subtests: pytest.Subtests, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(response_limit, "MAX_PIECE", 20_000)
    for wire in FORMATS:
        for stream in ("yes", "no"):
            for large in _LARGE:
                with subtests.test(wire=wire, stream=stream, large=large):
                    with LoopbackServer([large]) as server:
                        *_, error = ask(server, wire, stream=stream)
                    assert isinstance(error, BrokenReply) and "in one piece" in error.what
            with subtests.test(wire=wire, stream=stream), LoopbackServer([Large(18_000)]) as server:
                *_, reply = ask(server, wire, stream=stream)
                assert isinstance(reply, Reply) and reply.message.text == "Here."


def test_stream_may_exceed_the_limit_for_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(response_limit, "MAX_PIECE", 3_000)
    text = "word " * 2_000
    with LoopbackServer([text]) as server:
        *_, reply = ask(server, "compatible")
    assert isinstance(reply, Reply) and reply.message.text == text
