"""A reply that stalls on an open connection: silence, or keepalives only."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from itertools import product
from typing import Any

import pytest
from fake_time import LIMIT, Clock, run_at_once
from quick_models import FORMATS, NEVER, ask, wait_until_hung_up

from agentnb.core.log.events import TextDelta, ThinkingDelta
from agentnb.core.messages import Thinking, ToolCall
from agentnb.display.texts.notebook_commands import in_notebook
from agentnb.errors import ProviderTrouble
from agentnb.models import Reply, Retry
from agentnb.models.options import Options
from agentnb.models.transport.idle_timeout import IdleTimeout, Progress, until_idle
from agentnb.testing import LoopbackServer, Stall

WORDS = "One two three four"
CALL = ToolCall("add", {"a": "a long argument", "b": "and another one"})


def in_the_middle(wire: str) -> int:
    """Event positions between the first and the last words of a reply."""
    return {"anthropic": 5, "openai-responses": 6}.get(wire, 3)


def limits(pings: str) -> dict[str, Any]:
    """Return the options: with keepalives only the stall limit may end the call, otherwise only the silence timeout."""
    return {"timeout": 60, "stall": LIMIT} if pings else {"timeout": LIMIT, "stall": 60}


@pytest.mark.req("R2.40")
@pytest.mark.usefixtures("skipped_silence")
def test_reply_stalling_within_its_text_is_streamed_then_abandoned(subtests: pytest.Subtests) -> None:
    for wire, pings in product(FORMATS, ["", "comments", "events"]):
        with subtests.test(wire=wire, pings=pings):
            with LoopbackServer([Stall(600, in_the_middle(wire), WORDS, pings)]) as server:
                *items, error = ask(server, wire, NEVER, **limits(pings))
            heard = "".join(item.text for item in items)
            assert heard and WORDS.startswith(heard) and heard != WORDS
            assert isinstance(error, ProviderTrouble) and error.what.startswith(
                (f"{wire}: the server sent nothing ", f"{wire}: no part ")
            )
            assert ("stall=SECONDS" if pings else "timeout=SECONDS") in error.hint and "--continue" in in_notebook(error.advice)


@pytest.mark.req("R2.40")
@pytest.mark.usefixtures("skipped_silence")
def test_reply_stalling_within_a_call_is_abandoned(subtests: pytest.Subtests) -> None:
    for wire, pings in product(FORMATS, ["", "comments", "events"]):
        with subtests.test(wire=wire, pings=pings):
            with LoopbackServer([Stall(600, in_the_middle(wire) + 1, CALL, pings), "Never mind."]) as server:
                items = ask(server, wire, **limits(pings))
            assert [type(item) for item in items[:1]] == [Retry] and isinstance(items[-1], Reply)
            assert not items[-1].message.calls
            assert items[-1].message.text == "Never mind." and len(server.requests) == 2


@pytest.mark.req("R2.40")
@pytest.mark.usefixtures("skipped_silence")
def test_keepalives_alone_time_out_with_and_without_streaming(subtests: pytest.Subtests) -> None:
    for wire, stream in product(FORMATS, ["yes", "no"]):
        with subtests.test(wire=wire, stream=stream):
            with LoopbackServer([Stall(600, 0, WORDS, "comments"), "Here."]) as server:
                items = ask(server, wire, timeout=60, stall=LIMIT, stream=stream)
            retry = items[0]
            told_of = f"no part of the reply arrived for {LIMIT:g} s, although the connection is open"
            assert isinstance(retry, Retry) and retry.reason.endswith(told_of)
            assert items[-1].message.text == "Here."


@pytest.mark.slow("loads the libraries of the providers, where it is the first to")
def test_reply_continuing_after_keepalives_is_complete(subtests: pytest.Subtests) -> None:
    for wire, pings in product(FORMATS, ["comments", "events"]):
        with subtests.test(wire=wire, pings=pings):
            with LoopbackServer([Stall(0.2, in_the_middle(wire), WORDS, pings)]) as server:
                items = ask(server, wire, NEVER, timeout=60, stall=60)
            assert items[-1].message.text == WORDS and not [item for item in items if isinstance(item, Retry)]


@pytest.mark.usefixtures("skipped_silence")
def test_the_connection_of_a_stalled_reply_is_closed(subtests: pytest.Subtests) -> None:
    for wire in FORMATS:
        with subtests.test(wire):
            with LoopbackServer([Stall(600, in_the_middle(wire), WORDS, "events"), "Here."]) as server:
                ask(server, wire, timeout=60, stall=LIMIT)
                wait_until_hung_up(server)
            assert not server.requests[1].hung_up


def test_stall_limit_defaults_to_twice_the_timeout() -> None:
    assert Options().longest_stall == 600 == 2 * Options().timeout
    assert Options(timeout=7.0).longest_stall == 14 and Options(stall=3.0).longest_stall == 3


# Content and keepalives


class Slow:
    """Chunks that each take so many seconds of a clock."""

    def __init__(self, *chunks: Any, each: float) -> None:
        self._chunks, self._each, self.clock, self.closed = chunks, each, Clock(), False

    async def all(self) -> AsyncGenerator[Any]:
        try:
            for chunk in self._chunks:
                self.clock.now += self._each
                yield chunk
            await asyncio.Event().wait()
        finally:
            self.closed = True


PING = {"type": "ping"}
WORD = {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "One "}}
THOUGHT = {"type": "content_block_delta", "index": 0, "delta": {"type": "thinking_delta", "thinking": "Hm"}}
ARGUMENTS = {"type": "content_block_delta", "index": 0, "delta": {"type": "input_json_delta", "partial_json": '{"a'}}


def heard_of(slow: Slow, seconds: float) -> list[Any]:
    """Return the chunks before the stall."""
    heard: list[Any] = []

    async def listen() -> None:
        async with aclosing(slow.all()) as chunks, aclosing(until_idle(chunks, seconds)) as some:
            async for chunk in some:
                heard.append(chunk)  # noqa: PERF401

    with pytest.raises(IdleTimeout):
        run_at_once(slow.clock, listen())
    return heard


def test_text_thinking_and_arguments_each_restart_the_timeout(subtests: pytest.Subtests) -> None:
    cases = {"words": WORD, "thinking": THOUGHT, "arguments": ARGUMENTS}
    for name, chunk in cases.items():
        with subtests.test(name):
            slow = Slow(*[chunk] * 9, each=0.2)
            assert len(heard_of(slow, 0.3)) == 9 and slow.closed


def test_keepalives_do_not_restart_the_timeout() -> None:
    slow = Slow(WORD, *[PING] * 9, each=0.2)
    assert len(heard_of(slow, 0.5)) < 5


SAID_AGAIN = [
    {"type": "message_start", "message": {"id": "m"}},
    {"type": "content_block_start", "index": 0, "content_block": {"type": "thinking"}},
    {"type": "content_block_stop", "index": 0},
    {"type": "message_delta", "delta": {"stop_reason": "end_turn"}},
    {"type": "message_stop"},
    {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]},
    {"choices": [{"index": 0, "delta": {"tool_calls": [{"index": 0, "id": "c", "function": {"name": "add"}}]}}]},
    {"choices": [{"index": 0, "delta": {"tool_calls": [{"index": 0, "id": "c", "function": {"arguments": ""}}]}}]},
    {"choices": [{"index": 0, "delta": {"content": [{"type": "text", "text": ""}]}}]},
    {"type": "response.created", "response": {}},
    {"type": "response.output_item.added", "output_index": 0, "item": {}},
    {"type": "response.output_item.done", "output_index": 0, "item": {}},
    {"type": "response.web_search_call.searching", "item_id": "ws_1"},
    {"type": "response.completed", "response": {"id": "r"}},
    {"type": "content_block_start", "index": [], "content_block": {}},
]


def test_resent_content_does_not_restart_the_timeout(subtests: pytest.Subtests) -> None:
    for chunk in SAID_AGAIN:
        with subtests.test(chunk=chunk):
            assert len(heard_of(Slow(WORD, *[chunk] * 9, each=0.2), 0.5)) < 6


def test_each_new_part_restarts_the_timeout(subtests: pytest.Subtests) -> None:
    blocks = [{"type": "content_block_start", "index": index, "content_block": {}} for index in range(9)]
    items = [{"type": "response.output_item.added", "output_index": index, "item": {}} for index in range(9)]
    calls = [{"choices": [{"index": 0, "delta": {"tool_calls": [{"index": index, "id": f"c{index}"}]}}]} for index in range(9)]
    for chunks in (blocks, items, calls):
        with subtests.test(chunk=chunks[0]):
            assert len(heard_of(Slow(*chunks, each=0.2), 0.3)) == 9


def test_repeated_equal_deltas_restart_the_timeout(subtests: pytest.Subtests) -> None:
    for delta in ({"content": "a"}, {"reasoning": "a"}, {"tool_calls": [{"index": 0, "function": {"arguments": "0"}}]}, "a"):
        with subtests.test(delta=delta):
            assert len(heard_of(Slow(*[{"choices": [{"index": 0, "delta": delta}]}] * 9, each=0.2), 0.3)) == 9


def test_processing_a_chunk_does_not_count_as_waiting() -> None:
    async def chunks() -> AsyncGenerator[Any]:
        for _ in range(3):
            await asyncio.sleep(0)
            yield PING

    clock = Clock()

    async def listen() -> int:
        count = 0
        async with aclosing(chunks()) as some, aclosing(until_idle(some, 5)) as heard:
            async for _ in heard:
                count += 1
                clock.now += 100
        return count

    assert run_at_once(clock, listen()) == 3


def test_timeout_error_from_the_stream_is_passed_on() -> None:
    async def chunks() -> AsyncGenerator[Any]:
        raise TimeoutError("mine")
        yield

    async def listen() -> None:
        async with aclosing(until_idle(chunks(), 5)) as heard:
            async for _ in heard:
                pass

    with pytest.raises(TimeoutError, match="mine"):
        asyncio.run(listen())


OF_A_REPLY = [
    WORD,
    THOUGHT,
    ARGUMENTS,
    {"type": "message_start", "message": {}},
    {"type": "content_block_start", "index": 0, "content_block": {"type": "thinking"}},
    {"type": "message_delta", "delta": {"stop_reason": "end_turn"}},
    {"choices": [{"index": 0, "delta": {"reasoning_content": "Hm"}}]},
    {"choices": [{"index": 0, "delta": {"tool_calls": [{"index": 0, "function": {"arguments": "{"}}]}}]},
    {"choices": [{"index": 0, "delta": "One"}]},
    {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]},
    {"type": "response.created", "response": {}},
    {"type": "response.output_text.delta", "delta": "One"},
    {"type": "response.function_call_arguments.delta", "delta": '{"a'},
    {"type": "response.reasoning_summary_text.delta", "delta": "Hm"},
    {"type": "response.web_search_call.searching", "item_id": "ws_1"},
]
ONLY_SIGNS = [
    PING,
    {"type": "keepalive", "sequence_number": 3},
    {"type": "response.in_progress", "response": {"id": "resp_1"}},
    {"type": "response.queued", "response": {"id": "resp_1"}},
    {"type": "weather_report", "sky": "clear"},
    {"type": "content_block_delta", "index": 0, "delta": {"type": "thinking_delta", "thinking": ""}},
    {"type": "response.output_text.delta", "delta": ""},
    {"choices": []},
    {"choices": [None, {}]},
    {"choices": [{"index": 0, "delta": {"role": "assistant", "content": None, "tool_calls": []}, "finish_reason": None}]},
    {"object": "chat.completion.chunk"},
    {},
    None,
    "alive",
]


def test_chunks_with_content_count_as_progress(subtests: pytest.Subtests) -> None:
    for chunk in OF_A_REPLY:
        with subtests.test(chunk=chunk):
            assert Progress().is_made_by(chunk)


def test_keepalives_do_not_count_as_progress(subtests: pytest.Subtests) -> None:
    for chunk in ONLY_SIGNS:
        with subtests.test(chunk=chunk):
            assert not Progress().is_made_by(chunk)


def test_thinking_and_arguments_are_streamed_without_ending_the_call(subtests: pytest.Subtests) -> None:
    for wire in FORMATS:
        with subtests.test(wire):
            with LoopbackServer([[Thinking("Let me see now"), CALL]]) as server:
                items = ask(server, wire, timeout=60, stall=60)
            assert [call.name for call in items[-1].message.calls] == ["add"]
            assert not any(isinstance(item, TextDelta) for item in items)
            assert {type(item) for item in items[:-1]} <= {ThinkingDelta}
