"""Half characters (lone surrogates) in an estimated reply: an emoji cut in two, or a single half."""

from __future__ import annotations

import threading
from dataclasses import dataclass, replace
from typing import Any

import pytest
from scripted_runs import bare, do, work
from streamed_replies import Streamed
from summarising import Summarising

from agentnb import History
from agentnb.core.log.events import TextDelta
from agentnb.core.log.wire import encode
from agentnb.core.messages import Message, Text, Thinking, user
from agentnb.core.request import Request
from agentnb.detect.run import Run
from agentnb.models.estimate import about
from agentnb.runtime.host.live_run import LiveRun
from agentnb.testing import NOT_COUNTED, Answer, LoopbackServer, Misbehaviour, Miscount, Stall
from agentnb.testing.replies.reply_format import Asked, Delivery, Wire

WIRES = ("anthropic", "openai", "openai-responses", "compatible")
FIRST, SECOND = b"AAA ", b"BBB"
SPLIT, LONE = (rb"\ud83d", rb"\ude00"), (rb"x ", rb"\ud83d")
UNCOUNTED = Miscount(["AAA BBB"], NOT_COUNTED, NOT_COUNTED)


@dataclass(frozen=True)
class Halves(Misbehaviour):
    """A reply with these JSON bytes in place of its two words."""

    good: Misbehaviour
    halves: tuple[bytes, bytes]

    def deliver(self, wire: Wire, asked: Asked) -> Delivery:
        found = self.good.deliver(wire, asked)
        first, second = self.halves
        return replace(found, chunks=[chunk.replace(FIRST, first).replace(SECOND, second) for chunk in found.chunks])


@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.parametrize("stream", ["yes", "no"])
@pytest.mark.parametrize(("halves", "text"), [(SPLIT, "😀"), (LONE, "x \ufffd")])
@pytest.mark.req("KX.9")
def test_reply_with_a_lone_surrogate_is_read_and_estimated(
    wire: str, stream: str, halves: tuple[bytes, bytes], text: str
) -> None:
    with LoopbackServer([Halves(UNCOUNTED, halves)]) as server:
        run = bare(server.model(wire, stream=stream, price="3/15"), budget=1.0).run_sync("go")
    assert (run.status, run.text) == ("completed", text)
    assert run.usage.estimated and run.usage.output and run.cost
    assert Run.from_events(run.events) == run and all(map(encode, run.events))


@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.parametrize("halves", [SPLIT, LONE])
@pytest.mark.req("KX.9")
def test_stop_after_a_lone_surrogate_leaves_an_estimate(wire: str, halves: tuple[bytes, bytes]) -> None:
    heard = threading.Event()

    def listen(item: Any) -> None:
        if isinstance(item, TextDelta) and "\ud83d" in item.text:
            heard.set()

    after = {"anthropic": 5, "openai-responses": 7}.get(wire, 3)
    stalling = Stall(60, after=after, line=Answer("AAA BBB CCC DDD EEE FFF GGG"))
    with LoopbackServer([Halves(stalling, halves)]) as server:
        live: LiveRun = bare(server.model(wire, price="3/15")).start("go", watch=listen)
        assert heard.wait(30)
        live.stop("enough")
        run = live.result(30)
    assert (run.status, run.rounds[0].stop_reason) == ("cancelled", "broken_off")
    assert run.usage.estimated and run.usage.input and run.usage.output and run.cost


def test_lone_surrogates_in_an_interrupted_summary_are_estimated() -> None:
    class Breaks(Summarising):
        def used_until_cut(self, request: Request, heard: Message) -> Any:
            return about(request, heard)

    model = Breaks([do(1), do(2), do(3), "Done."], [Streamed("\ud83d", OSError("gone"))])
    run = bare(model, [work], system="", instructions=False, history=History(compact_above=5, keep_recent=2)).run_sync("go")
    (usage,) = [compaction.usage for round_ in run.rounds for compaction in round_.compactions]
    assert usage.estimated and usage.output


def test_surrogate_pair_is_estimated_like_its_character() -> None:
    request = Request("", [user("Go.")])
    whole, halves = (Message("assistant", (Thinking(text), Text(text))) for text in ("😀", "\ud83d\ude00"))
    assert about(request, halves) == about(request, whole)
