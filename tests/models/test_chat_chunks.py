"""The reader of chat chunks: oddly marked call fragments, arguments in invalid JSON, thinking in tags."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import aclosing
from itertools import combinations, product
from typing import Any

import httpx2
import pytest
from fake_time import Clock, run_at_once
from property_settings import size
from quick_models import NEVER, items_of, quick
from test_openai import calls, chunk, fragment

from agentnb.core.log.events import ReplyDelta, TextDelta, ThinkingDelta
from agentnb.core.messages import Message, Text, Thinking, ToolCall
from agentnb.core.usage import Usage
from agentnb.errors import BrokenReply, ProviderTrouble
from agentnb.models import Reply
from agentnb.models.provider import DONE, CutOff, Refused
from agentnb.models.providers.chat_chunks import ChatReading, as_stream
from agentnb.models.providers.serialization import ARGUMENTS_MENDED
from agentnb.models.transport.failure import Refusal, failure
from agentnb.models.transport.idle_timeout import AFTER_THE_END, IdleTimeout, until_idle
from agentnb.models.transport.response_limit import bound


def read(*chunks: Any, tags: bool = False) -> tuple[list[ReplyDelta], Reply]:
    """The deltas and the reply."""
    reading = ChatReading(own="compatible", tags=tags)
    deltas = [delta for one in chunks for delta in reading.take(one)]
    return deltas, reading.reply()


def calls_of(*fragments: Any) -> tuple[ToolCall, ...]:
    return read(*calls(*fragments), chunk("tool_calls"))[1].message.calls


# Fragments of calls


ONE = {
    "an id that changes": [fragment(0, "a", "add", ""), fragment(0, "b", None, '{"a":'), fragment(0, "c", None, "1}")],
    "an id that changes, with the name": [fragment(0, "a", "add", '{"a":'), fragment(0, "b", "add", "1}")],
    "an id that changes, no index": [fragment(None, "a", "add", ""), fragment(None, "b", None, '{"a":1}')],
    "an index that counts fragments": [fragment(0, "a", "add", '{"a":'), fragment(1, "a", None, "1}")],
    "an index that counts, no id": [
        fragment(0, "a", "add", '{"a"'),
        fragment(1, None, None, ":1"),
        fragment(2, None, None, "}"),
    ],
    "a name in pieces": [
        fragment(0, "a", "a", ""),
        fragment(0, None, "dd", ""),
        fragment(0, None, None, '{"a":1}'),
    ],
    "a name in pieces, an id in each": [
        fragment(0, "a", "a", ""),
        fragment(0, "a", "dd", ""),
        fragment(0, "a", None, '{"a":1}'),
    ],
    "a name in pieces, the last with arguments": [fragment(0, "a", "ad"), fragment(0, None, "d", '{"a":1}')],
    "a name in pieces, no index": [fragment(None, "a", "ad"), fragment(None, None, "d"), fragment(None, None, None, '{"a":1}')],
    "an object behind an empty one": [fragment(0, "a", "add", {}), fragment(0, None, None, '{"a":1}')],
    "an id that comes late": [fragment(0, None, "add", '{"a":'), fragment(0, "a", None, "1}")],
}


def test_unmarked_fragments_repeating_a_name_are_one_call() -> None:
    pieces = [fragment(None, None, "add", piece) for piece in ('{"a":', "1}")]
    assert calls_of(*pieces) == (ToolCall("add", {"a": 1}),)


def test_call_fragments_are_joined_however_marked(subtests: pytest.Subtests) -> None:
    for name, fragments in ONE.items():
        with subtests.test(name):
            assert calls_of(*fragments) == (ToolCall("add", {"a": 1}, "a"),)


def test_unmarked_fragments_belong_to_the_first_open_call(subtests: pytest.Subtests) -> None:
    begun = [fragment(None, "a", "add", '{"a":'), fragment(None, "b", "add", '{"a":')]
    rest = [fragment(None, None, None, piece) for piece in ("1", "}", "2}")]
    assert calls_of(*begun, *rest) == (ToolCall("add", {"a": 1}, "a"), ToolCall("add", {"a": 2}, "b"))
    for name, first in {"whole": "{}", "without arguments": ""}.items():
        with subtests.test("behind a call", call=name):
            begun = [fragment(None, "a", "add", first), fragment(None, "b", "add", "")]
            assert [
                call.arguments for call in calls_of(*begun, *(fragment(None, None, None, piece) for piece in ('{"a"', ":1}")))
            ] == [
                {},
                {"a": 1},
            ]
    with subtests.test("behind a call that an id has ended"):
        begun = [fragment(None, "a", "add", "{"), fragment(None, "b", "add", '{"a":'), fragment(None, "a", None, "}")]
        assert [call.arguments for call in calls_of(*begun, fragment(None, None, None, "1}"))] == [{}, {"a": 1}]


def test_legacy_function_call_field_is_read() -> None:
    pieces = [{"name": "add", "arguments": '{"a"'}, {"arguments": ":1}"}]
    _, answer = read(*(chunk(function_call=piece) for piece in pieces), chunk("function_call"))
    assert answer.message.calls == (ToolCall("add", {"a": 1}),)


# Arguments


FENCE = "```"
MENDED = {
    "an empty object before": '{}{"a": 1}',
    "an empty object behind": '{"a": 1} {}',
    "the same object twice": '{"a": 1}{"a":1}',
    "a code block": FENCE + 'json\n{"a": 1}\n' + FENCE,
    "a code block without its language": FENCE + '{"a": 1}' + FENCE + "\n",
    "JSON within JSON": json.dumps('{"a": 1}'),
    "JSON within JSON within JSON": json.dumps(json.dumps('{"a": 1}')),
    "a code block within JSON": json.dumps(FENCE + '\n{"a": 1}\n' + FENCE),
    "a code block of another language": FENCE + 'json5\n{"a": 1}\n' + FENCE,
    "a code block without its end": FENCE + 'json\n{"a": 1}',
    "a code block after words": "Here they are:\n" + FENCE + '\n{"a": 1}\n' + FENCE,
    "a name before": 'arguments: {"a": 1}',
    "a call": 'functions.add({"a": 1});',
    "tokens of a template around": '<tool_call>\n{"a": 1}\n</tool_call>',
    "a BOM": '\ufeff{"a": 1}',
    "keys without quotes": "{a: 1}",
    "a list of one": '[{"a": 1}]',
    "a bracket too many": '{"a": 1}}',
    "tokens of a template": '{"a": 1}</tool_call><|im_end|>',
    "a literal of Python": "{'a': 1}",
    "a comma too many": '{"a": 1,}',
}
KEPT = [
    '{"a": 1}{"a": 2}',
    '{"a": 1',
    '{"a": 1} and so on',
    'not {"a": 1} but {"a": 2}',
    '[{"a": 1}, {"a": 2}]',
    "{'a': {1, 2}}",
    "{1: 2}",
    '{"a": NaN}',
    "one",
    '"one"',
    "1",
    '{"a":' * 600 + "1" + "}" * 600,
]


def test_unambiguous_arguments_are_repaired_and_the_repair_recorded(subtests: pytest.Subtests) -> None:
    for name, text in MENDED.items():
        with subtests.test(name):
            _, answer = read(*calls(fragment(0, "a", "add", text)), chunk("tool_calls"))
            assert answer.message.calls == (ToolCall("add", {"a": 1}, "a"),)
            (told,) = answer.metadata[ARGUMENTS_MENDED]
            assert told.startswith("add: ") and len(told) > len("add: ")
    with subtests.test("a line break in a text"):
        assert calls_of(fragment(0, "a", "add", '{"a": "x\ny"}'))[0].arguments == {"a": "x\ny"}
    with subtests.test("constants in a literal of either language"):
        for text in (
            '{\'a\': [true, None], "b": {c: "it\'s\\u00e4,}",},}',
            "{'a': [True, null], 'b': {'c': 'it\\'s\\u00e4,}'}}",
        ):
            assert calls_of(fragment(0, "a", "add", text))[0].arguments == {"a": [True, None], "b": {"c": "it'sä,}"}}
    with subtests.test("escapes of JSON in a literal"):
        assert calls_of(fragment(0, "a", "add", "{'a': \"\\/\\ud83d\\ude00\"}"))[0].arguments == {"a": "/😀"}
    for nothing in ("null", "None", '""', "[]", "{}{}", [], {}, None):
        with subtests.test("nothing", nothing=nothing):
            assert calls_of(fragment(0, "a", "add", nothing))[0].arguments == {}


def test_unreadable_or_ambiguous_arguments_are_kept_for_refusal(subtests: pytest.Subtests) -> None:
    for text in KEPT:
        with subtests.test(text=text[:30]):
            _, answer = read(*calls(fragment(0, "a", "add", text)), chunk("tool_calls"))
            assert not isinstance(answer.message.calls[0].arguments, dict) and ARGUMENTS_MENDED not in answer.metadata


# Thinking in tags


TAGGED = {
    "<think>hm</think>So": ("hm", "So"),
    "\n<think>\nhm\n</think>\n\nSo": ("hm\n", "So"),
    "<thinking>hm</thinking>So": ("hm", "So"),
    "<think></think>\n\nSo": ("", "So"),
    "<think>a</think> <thinking>b</thinking> So": ("ab", "So"),
    "<think>1 < 2 </thin</think>So": ("1 < 2 </thin", "So"),
    "<think>never closed": ("never closed", ""),
    "<think>hm</think>\n": ("hm", ""),
    "<think>hm</think>": ("hm", ""),
    "So <think>hm</think>": ("", "So <think>hm</think>"),
    "<thin": ("", "<thin"),
    "[THINK]hm[/THINK]So": ("hm", "So"),
    "<thinker>": ("", "<thinker>"),
    " So": ("", " So"),
    " " * 2_000 + "So": ("", " " * 2_000 + "So"),
}


def test_content_of_leading_think_tags_is_thinking_however_split(subtests: pytest.Subtests) -> None:
    for text, (thought, said) in TAGGED.items():
        with subtests.test(text=text[:40]):
            cuts = [(), *combinations(range(1, len(text)), 2)] if len(text) < 30 else [(7,), tuple(range(1, len(text)))]
            for cut in cuts:
                pieces = [text[start:end] for start, end in zip((0, *cut), (*cut, len(text)), strict=True)]
                deltas, answer = read(*(chunk(content=piece) for piece in pieces), chunk("stop"), tags=True)
                parts = [Thinking(thought)] * bool(thought) + [Text(said)] * bool(said)
                assert answer.message == Message("assistant", tuple(parts))
                assert "".join(delta.text for delta in deltas if isinstance(delta, ThinkingDelta)) == thought
                assert "".join(delta.text for delta in deltas if isinstance(delta, TextDelta)) == said
            assert read(chunk(content=text), chunk("stop"))[1].message.text == text


ENDED = {
    "hm\n</think>\n\nSo": ("hm\n", "So"),
    "\nhm</thinking>So": ("hm", "So"),
    "hm</think>": ("hm", ""),
    "</think>So": ("", "So"),
    "<think>a</think>b</think>So": ("ab", "So"),
    "Write `</think>` to end it": ("", "Write `</think>` to end it"),
    "The <think> tag ends with </think>": ("", "The <think> tag ends with </think>"),
}


def test_text_before_a_closing_think_tag_is_thinking(subtests: pytest.Subtests) -> None:
    for text, (thought, said) in ENDED.items():
        with subtests.test(text):
            _, answer = read(*(chunk(content=letter) for letter in text), chunk("stop"), tags=True)
            assert answer.message.parts == (*[Thinking(thought)] * bool(thought), *[Text(said)] * bool(said))
            assert read(chunk(content=text), chunk("stop"))[1].message.text == text


TEXTS = [{"type": "text", "text": "hm"}]
THOUGHTS: dict[str, dict[str, Any]] = {
    "Mistral's": {"content": [{"type": "thinking", "thinking": TEXTS}]},
    "Databricks'": {"content": [{"type": "reasoning", "summary": TEXTS}]},
    "one part": {"content": {"type": "thinking", "thinking": "hm"}},
    "details of OpenRouter": {"reasoning_details": [{"type": "reasoning.summary", "summary": "hm", "index": 0}]},
    "details and their text": {"reasoning": "hm", "reasoning_details": [{"type": "reasoning.text", "text": "hm"}]},
    "blocks of LiteLLM": {"thinking_blocks": [{"type": "thinking", "thinking": "hm", "signature": "s"}]},
}


def test_thinking_is_streamed_in_every_known_form(subtests: pytest.Subtests) -> None:
    for name, delta in THOUGHTS.items():
        with subtests.test(name):
            deltas, answer = read(chunk(**delta), chunk(content=[{"type": "output_text", "text": "So"}]), chunk("stop"))
            assert deltas == [ThinkingDelta("hm"), TextDelta("So")]
            assert [part.text for part in answer.message.parts if isinstance(part, Thinking | Text)] == ["hm", "So"]


def test_thinking_fragments_are_joined_up_to_their_signature() -> None:
    pieces = [{"thinking": "h"}, {"thinking": "m"}, {"thinking": "", "signature": "s"}, {"thinking": "So"}]
    blocks = [{"type": "thinking", **piece} for piece in pieces]
    _, answer = read(*(chunk(thinking_blocks=[block]) for block in blocks), chunk(content="So"), chunk("stop"))
    (thinking, _) = answer.message.parts
    kept = [{"type": "thinking", "thinking": "hm", "signature": "s"}, {"type": "thinking", "thinking": "So"}]
    assert thinking == Thinking("hmSo", {"compatible": {"thinking_blocks": kept}})


# Errors and usage


CHOICE = {"index": 0, "delta": {"content": ""}}
ERRORS: dict[str, tuple[Any, int | None]] = {
    "OpenRouter's": ({"choices": [{**CHOICE, "finish_reason": "error"}], "error": {"code": 502, "message": "broke"}}, 502),
    "in a choice": ({"choices": [{**CHOICE, "finish_reason": "error", "error": {"code": 502, "message": "broke"}}]}, 502),
    "vLLM's": ({"object": "error", "message": "broke", "type": "BadRequestError", "code": 400}, 400),
    "Mistral's": ({"object": "error", "message": "broke", "type": "rate_limited", "code": "1300"}, 429),
    "Google's": ({"error": {"message": "broke", "status": "UNAVAILABLE"}}, 503),
    "FastAPI's": ({"detail": "broke"}, None),
    "FastAPI's list": ({"detail": [{"msg": "broke", "type": "value_error"}]}, None),
    "in a delta": ({"choices": [{"index": 0, "delta": {"error": {"message": "broke", "code": 503}}}]}, 503),
    "MiniMax's": ({"choices": None, "base_resp": {"status_code": 1000, "status_msg": "broke"}}, None),
    "a text": ({"error": "broke"}, None),
    "TGI's": ({"error": "broke", "error_type": "overloaded"}, None),
    "of a server behind": (
        {"error": {"message": "Provider returned error", "code": 400, "metadata": {"raw": '{"error":{"message":"broke"}}'}}},
        400,
    ),
}


def test_error_chunk_keeps_its_message_in_every_form(subtests: pytest.Subtests) -> None:
    for name, (sent, status) in ERRORS.items():
        with subtests.test(name):
            with pytest.raises(Refused) as refused:
                read(chunk(content="So"), sent)
            details = refused.value.details
            assert details.message.endswith("broke")
            found = failure(Refusal("compatible", "m", details.status, details.name, details.message))
            assert found.status == status and found.transient is (status != 400)


def test_finish_reason_reporting_an_error_is_a_failure() -> None:
    for finish, status in {"error": None, "insufficient_system_resource": 503}.items():
        with pytest.raises(Refused) as refused:
            read(chunk(content="So"), chunk(finish))
        assert failure(Refusal("compatible", "m", None, refused.value.details.name, "")).status == status


COUNTS = {"prompt_tokens": 100, "completion_tokens": 10}
USAGES: dict[str, tuple[list[Any], Usage]] = {
    "alone": ([chunk("stop"), {"choices": [], "usage": COUNTS}], Usage(100, 10)),
    "Kimi's": (
        [{"choices": [{"index": 0, "delta": {}, "finish_reason": "stop", "usage": {**COUNTS, "cached_tokens": 80}}]}],
        Usage(100, 10, 80),
    ),
    "Groq's": ([chunk("stop"), {"choices": [], "x_groq": {"usage": COUNTS}}], Usage(100, 10)),
    "Groq's in the last chunk": ([{**chunk("stop"), "x_groq": {"usage": COUNTS}}], Usage(100, 10)),
    "growing": (
        [{**chunk(content="a"), "usage": {**COUNTS, "completion_tokens": 1}}, {**chunk("stop"), "usage": COUNTS}],
        Usage(100, 10),
    ),
    "nothing at the end": (
        [{**chunk(content="a"), "usage": COUNTS}, {**chunk("stop"), "usage": {"prompt_tokens": 0, "completion_tokens": 0}}],
        Usage(100, 10),
    ),
    "DeepSeek's cache": ([{**chunk("stop"), "usage": {**COUNTS, "prompt_cache_hit_tokens": 80}}], Usage(100, 10, 80)),
    "LiteLLM's cache": ([{**chunk("stop"), "usage": {**COUNTS, "cache_read_input_tokens": 80}}], Usage(100, 10, 80)),
    "LiteLLM's written cache": (
        [{**chunk("stop"), "usage": {**COUNTS, "cache_creation_input_tokens": 5, "prompt_tokens_details": None}}],
        Usage(100, 10, cache_write=5),
    ),
    "a detail that is not counted": (
        [{**chunk("stop"), "usage": {**COUNTS, "cached_tokens": 80, "prompt_tokens_details": {"cached_tokens": 0}}}],
        Usage(100, 10, 80),
    ),
    "as text": ([{**chunk("stop"), "usage": {"prompt_tokens": "100", "completion_tokens": "10"}}], Usage(100, 10)),
    "with a point": ([{**chunk("stop"), "usage": {"prompt_tokens": 100.0, "completion_tokens": 10.0}}], Usage(100, 10)),
}


def test_usage_is_read_from_any_chunk(subtests: pytest.Subtests) -> None:
    for name, (chunks, usage) in USAGES.items():
        with subtests.test(name):
            assert read(*chunks)[1].usage == usage


# Splits and faults


WHOLE = {
    "id": "c1",
    "model": "m",
    "choices": [
        {
            "index": 0,
            "finish_reason": "tool_calls",
            "message": {
                "content": "<think>\nLet me <add> these.</think>\n\nI add: 1 < 2.",
                "tool_calls": [
                    fragment(None, "a", "add", '{"a": 1, "text": "} {\\"x\\": [1]}"}'),
                    fragment(None, "b", "now", "{}"),
                    fragment(None, "c", "add", '{"a": {"b": "ö\\n"}}'),
                ],
            },
        }
    ],
    "usage": COUNTS,
}


def cut(draw: random.Random, text: str) -> list[str]:
    """Return the text in random pieces."""
    cuts = sorted(draw.randrange(len(text) + 1) for _ in range(draw.randrange(6)))
    return [text[start:end] for start, end in zip([0, *cuts], [*cuts, len(text)], strict=True)]


def cuttings(draw: random.Random) -> Iterator[Any]:
    """Return the chunks of `WHOLE`, split at random: calls sequential or interleaved, marked in one of four ways."""
    message = WHOLE["choices"][0]["message"]  # type: ignore[index]
    yield from (chunk(content=piece) for piece in cut(draw, message["content"]))
    marks = draw.choice(["index", "index and id", "id", "id once"])
    streams: list[list[Any]] = []
    for number, call in enumerate(message["tool_calls"]):
        function, index = call["function"], number if "index" in marks else None
        first, *rest = cut(draw, function["arguments"])
        again = None if marks in ("index", "id once") else call["id"]
        more = [fragment(index, again, None, piece) for piece in rest]
        streams.append([fragment(index, call["id"], function["name"], first), *more])
    if marks == "id once":  # then calls cannot overlap
        order = [number for number, stream in enumerate(streams) for _ in stream]
    else:
        rest_of = [number for number, stream in enumerate(streams) for _ in stream[1:]]
        draw.shuffle(rest_of)
        order = [0, 1, 2, *rest_of]
    parts = [streams[number].pop(0) for number in order]
    while parts:
        together = draw.randrange(1, 4)
        yield chunk(tool_calls=parts[:together])
        parts = parts[together:]
    yield {**chunk("tool_calls"), "model": "m"}
    yield {"choices": [], "usage": COUNTS}


def test_reply_is_the_same_for_any_split() -> None:
    draw = random.Random(51)
    _, expected = read(*as_stream(WHOLE), tags=True)
    assert [call.id for call in expected.message.calls] == ["a", "b", "c"] and expected.message.text == "I add: 1 < 2."
    for _ in range(size(1_000, nightly=20_000)):
        chunks = list(cuttings(draw))
        deltas, answer = read(*chunks, tags=True)
        assert (answer.message, answer.usage, answer.stop_reason) == (expected.message, expected.usage, "tool_calls"), chunks
        assert "".join(delta.text for delta in deltas if isinstance(delta, TextDelta)) == expected.message.text


EVENTS = [
    b"data: " + json.dumps(one, ensure_ascii=False).encode() + b"\n\n"
    for one in (
        chunk(content="Hö"),
        *calls(fragment(0, "a", "add", '{"a":'), fragment(0, None, None, "1}")),
        chunk("tool_calls"),
        {"choices": [], "usage": COUNTS},
    )
]
STREAM = b"".join(EVENTS)
END = len(b"".join(EVENTS[:-1])) - len(b"\n\n")
"""Bytes after which the reply has ended; a blank line and its usage follow."""


class Broken(httpx2.AsyncByteStream):
    """Sends the first bytes of a stream; then the connection breaks, or closes normally."""

    def __init__(self, *data: bytes, breaks: bool) -> None:
        self._data, self._breaks = data, breaks

    async def __aiter__(self) -> AsyncGenerator[bytes]:
        for piece in self._data:
            yield piece
        if self._breaks:
            raise httpx2.RemoteProtocolError("peer closed connection")


@pytest.mark.parametrize("breaks", [True, False])
def test_stream_truncated_at_any_byte_is_complete_or_retried(breaks: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    ends: list[int] = []

    def answer(request: httpx2.Request) -> httpx2.Response:
        stream = Broken(STREAM[: ends[-1]], breaks=breaks)
        return httpx2.Response(200, headers={"content-type": "text/event-stream"}, stream=stream)

    settings = {"transport": httpx2.MockTransport(answer)}
    monkeypatch.setattr("agentnb.models.providers.openai.http_settings", lambda url: settings)

    async def ask_all() -> None:
        model = quick("compatible:m?url=http://127.0.0.1:9/v1", NEVER)
        for end in range(0, len(STREAM) + 1, size(5, nightly=1)):
            ends.append(end)
            if end < END:
                with pytest.raises((ProviderTrouble, BrokenReply)):
                    await items_of(model)
            else:
                one = (await items_of(model))[-1]
                assert one.message == Message("assistant", (Text("Hö"), ToolCall("add", {"a": 1}, "a"))), end

    asyncio.run(ask_all())


def test_complete_message_needs_no_stop_reason() -> None:
    message = {"role": "assistant", "content": "So"}
    for choice in ({"message": message}, {"message": message, "finish_reason": None}):
        assert read(*as_stream({"choices": [choice]}))[1].stop_reason == "stop"
    with pytest.raises(CutOff):
        read(*as_stream({"choices": [{"message": {"role": "assistant", "content": None}}]}))


def test_complete_stream_with_end_marker_needs_no_stop_reason(subtests: pytest.Subtests) -> None:
    add = fragment(0, "a", "add", '{"a":1}')
    text = chunk(content="So")
    for name, chunks in {"text": [text], "a call": calls(add), "both": [text, *calls(add)]}.items():
        with subtests.test(name):
            assert read(*chunks, DONE)[1].message == read(*chunks, chunk("stop"))[1].message
            assert read(*chunks, chunk("length"), DONE)[1].stop_reason == "length"
            with pytest.raises(CutOff):
                read(*chunks)
    for name, chunks in {
        "nothing": [chunk()],
        "thinking": [chunk(reasoning="Hm")],
        "half a call": [chunk(content="So"), *calls(fragment(0, "a", "add", '{"a":'))],
    }.items():
        with subtests.test(name), pytest.raises(CutOff):
            read(*chunks, DONE)


@pytest.fixture
def answer_with(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Reply]:
    """Return the reply read from a stream body that ends normally or, with ``breaks``, with a broken connection."""
    sent: list[Broken] = []

    def answer(request: httpx2.Request) -> httpx2.Response:
        return httpx2.Response(200, headers={"content-type": "text/event-stream"}, stream=sent[-1])

    settings = {"transport": httpx2.MockTransport(answer), "event_hooks": {"response": [bound]}}
    monkeypatch.setattr("agentnb.models.providers.openai.http_settings", lambda url: settings)

    def ask(*pieces: bytes, breaks: bool = False) -> Reply:
        sent.append(Broken(*pieces, breaks=breaks))
        return asyncio.run(items_of(quick("compatible:m?url=http://127.0.0.1:9/v1", NEVER)))[-1]

    return ask


HELLO = [json.dumps(one) for one in (chunk(content="Hel"), chunk(content="lo"), chunk("stop"))]
ALL = "".join(f"data: {one}\n\n" for one in HELLO)
MESSAGE = 'data: {"choices": [{"message": {"content": "Hello"}, "finish_reason": "stop"}]}\n\n'
STREAMS = {
    "no blank behind the colon": ALL.replace("data: ", "data:") + "data:[DONE]\n\n",
    "CRLF": ALL.replace("\n", "\r\n"),
    "CR": ALL.replace("\n", "\r"),
    "a BOM": "\ufeff" + ALL,
    "no blank lines": ALL.replace("\n\n", "\n"),
    "no end of the last line": ALL.strip(),
    "ids, names and comments": ALL.replace("data:", "id: 5\nevent: chunk\nretry: 3\n: alive\n\n: alive\n\ndata:"),
    "signs of life": "event: ping\ndata: ping\n\ndata: null\n\ndata:\n\ndata: {}\n\n" + ALL,
    "data over lines": ALL.replace(", ", ",\ndata: "),
    "a mark and no reason": f"data: {HELLO[0]}\n\ndata: {HELLO[1]}\n\ndata: [DONE]",
    "a mark in quotes": f'data: {HELLO[0]}\n\ndata: {HELLO[1]}\n\ndata: "[DONE]"\n\n',
    "a message in one event": MESSAGE,
    "a message behind its deltas": f"data: {HELLO[0]}\n\ndata: {HELLO[1]}\n\n{MESSAGE}",
    "words behind the end": ALL + "Bye.\n",
}


def test_stream_is_read_with_any_kind_of_line(answer_with: Callable[..., Reply], subtests: pytest.Subtests) -> None:
    cuts: list[Callable[[bytes], int]] = [lambda _: 0, lambda _: 1, lambda _: 20, lambda body: len(body) // 2, lambda body: -1]
    for (name, text), breaks, cut in [*product(STREAMS.items(), (False, True), cuts)][:: size(3, nightly=1)]:
        body = text.encode()
        with subtests.test(name, breaks=breaks, at=cut(body)):
            assert answer_with(body[: cut(body)], body[cut(body) :], breaks=breaks).message.text == "Hello"


FAILED_STREAMS = {
    "a text with a name": "event: error\ndata: the model broke\n\n",
    "an object with a name": 'event: error\ndata: {"message": "the model broke"}\n\n',
    "a list": 'data: [{"error": {"message": "the model broke"}}]\n\n',
    "a line of its own": 'error: {"message": "the model broke"}\n\n',
    "JSON between events": '{"error": {"message": "the model broke"}}\n',
    "JSON over lines": '{\n  "error": "the model broke"\n}\n',
    "a text between events": "the model broke\n",
}


def test_error_in_a_stream_keeps_its_message(answer_with: Callable[..., Reply], subtests: pytest.Subtests) -> None:
    for (name, text), before in product(FAILED_STREAMS.items(), (b"", EVENTS[0])):
        with subtests.test(name, before=before), pytest.raises(ProviderTrouble, match="the model broke"):
            answer_with(before, text.encode())


def test_stream_ending_early_is_cut_off(answer_with: Callable[..., Reply]) -> None:
    with pytest.raises(ProviderTrouble, match="ended before the reply was complete"):
        answer_with(EVENTS[0])
    with pytest.raises(ProviderTrouble, match="peer closed connection"):
        answer_with(EVENTS[0][:40], breaks=True)


def test_finished_reply_does_not_wait_for_its_open_stream() -> None:
    async def chunks() -> AsyncGenerator[Any]:
        yield chunk("stop", content="So")
        yield {"choices": [], "usage": COUNTS}
        await asyncio.Event().wait()

    clock, reading = Clock(), ChatReading(own="compatible")

    async def listen() -> None:
        async with aclosing(until_idle(chunks(), 600, lambda: reading.ended)) as heard:
            async for one in heard:
                list(reading.take(one))

    with pytest.raises(IdleTimeout):
        run_at_once(clock, listen())
    assert clock.now - Clock().now == AFTER_THE_END and reading.reply().usage == Usage(100, 10)


def test_stream_without_events_is_read_as_json(answer_with: Callable[..., Reply]) -> None:
    whole = {"choices": [{"message": {"content": "So"}, "finish_reason": "stop"}], "usage": COUNTS}
    assert answer_with(json.dumps(whole, indent=1).encode()).message.text == "So"
    with pytest.raises(ProviderTrouble, match="slots are busy"):
        answer_with(b'error: {"code": 503, "message": "all slots are busy"}\n\n')
    with pytest.raises(ProviderTrouble, match="ended before the reply was complete"):
        answer_with(b": alive\n\n: alive\n\n")
