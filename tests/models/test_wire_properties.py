"""Properties of every wire for any conversation, reply and nonsense."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from property_settings import examples
from wire_by_hand import ADD, ANTHROPIC, COMPATIBLE, NO_DATA, NOW, OPENAI, PNG, RESPONSES, TIFF, joined, read

from agentnb.core.messages import Message, Text, Thinking, ToolCall, ToolResult
from agentnb.core.request import Request
from agentnb.models.options import Options
from agentnb.models.provider import CutOff, Refused
from agentnb.testing.memory import Memory
from agentnb.testing.requests import rules_chat, rules_messages, rules_responses

every_wire = pytest.mark.parametrize("provider", [ANTHROPIC, OPENAI, RESPONSES, COMPATIBLE], ids=lambda provider: provider.name)
MAPPED = (KeyError, TypeError, AttributeError, ValueError, IndexError, Refused, CutOff)
"""Exceptions that `remote.failure_of` turns into model failures; others would be bugs of ours."""

TEXTS = st.text(st.characters(codec="utf-8"), max_size=20)
JSON: Any = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=6,
)
OBJECTS = st.dictionaries(TEXTS, JSON, max_size=3)


# Any conversation


@st.composite
def conversations(draw: st.DrawFn) -> list[Message]:
    """Messages as the loop keeps them: they alternate, each call is answered once, ids differ; names may be anything."""
    messages, ids = [_spoken(draw, ())], iter(draw(st.lists(TEXTS.filter(bool), min_size=30, max_size=30, unique=True)))
    for _ in range(draw(st.integers(0, 3))):
        calls = [ToolCall(draw(TEXTS), draw(JSON), next(ids)) for _ in range(draw(st.integers(0, 3)))]
        other = st.builds(Text, TEXTS) | st.builds(Thinking, TEXTS, st.none() | st.just({"other": {"type": "x"}}))
        messages.append(Message("assistant", (*draw(st.lists(other, max_size=2)), *calls, *draw(st.lists(other, max_size=1)))))
        messages.append(_spoken(draw, calls))
    return messages


def _spoken(draw: st.DrawFn, calls: Any) -> Message:
    inner = st.lists(st.builds(Text, TEXTS) | st.sampled_from([PNG, TIFF, NO_DATA]), max_size=2).map(tuple)
    answers = [ToolResult(call.id, call.name, draw(inner), draw(st.booleans())) for call in calls]
    words = [Text(draw(TEXTS.filter(str.strip)))] if not answers or draw(st.booleans()) else []
    parts = draw(st.permutations([*answers, *words]))
    return Message("tool" if answers else "user", tuple(parts))


def problems(provider: Any, body: Any) -> list[str]:
    """Return the problems that a strict server would find."""
    if provider is ANTHROPIC:
        return rules_messages.problems(body, Memory(), "2026-10-21")
    if provider is RESPONSES:
        return rules_responses.problems(body, Memory())
    return rules_chat.problems(body, minimal=provider.needs_key is False)


@every_wire
@examples(60)
@given(messages=conversations(), system=TEXTS, tools=st.sampled_from([(), (ADD,), (ADD, NOW)]), images=st.booleans())
def test_api_accepts_any_conversation(provider: Any, messages: list[Message], system: str, tools: Any, images: bool) -> None:
    body = provider.body("m", Request(system.strip(), messages, tools), Options(images=images))
    assert problems(provider, json.loads(body)) == []


# Any reply


REPLIES = st.builds(
    lambda thought, text, calls: Message("assistant", (*thought, *text, *calls)),
    st.lists(st.builds(Thinking, TEXTS.filter(bool)), max_size=1),
    st.lists(st.builds(Text, TEXTS.filter(bool)), max_size=1),
    st.lists(st.builds(ToolCall, TEXTS.filter(bool), OBJECTS, TEXTS.filter(bool)), max_size=3, unique_by=lambda call: call.id),
)


def pieces(draw: st.DrawFn, text: str) -> list[str]:
    """Return the text in pieces, some of them empty."""
    cuts = sorted(draw(st.lists(st.integers(0, len(text)), max_size=4)))
    return [text[start:end] for start, end in zip([0, *cuts], [*cuts, len(text)], strict=True)]


def mixed(draw: st.DrawFn, *streams: list[Any]) -> Iterator[Any]:
    """Merge the streams, each in its order."""
    order = draw(st.permutations([number for number, stream in enumerate(streams) for _ in stream]))
    rest = [iter(stream) for stream in streams]
    return (next(rest[number]) for number in order)


def as_messages(draw: st.DrawFn, message: Message) -> Iterator[Any]:
    streams = []
    for index, part in enumerate(message.parts):
        block: dict[str, Any] = {"type": "text", "text": ""}
        kind, field, text = "text_delta", "text", getattr(part, "text", "")
        if isinstance(part, Thinking):
            block, kind, field = {"type": "thinking", "thinking": ""}, "thinking_delta", "thinking"
        elif isinstance(part, ToolCall):
            block = {"type": "tool_use", "id": part.id, "name": part.name, "input": {}}
            kind, field, text = "input_json_delta", "partial_json", json.dumps(part.arguments)
        deltas = [{"type": kind, field: piece} for piece in pieces(draw, text)]
        streams.append(
            [
                {"type": "content_block_start", "index": index, "content_block": block},
                *({"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas),
                {"type": "content_block_stop", "index": index},
            ]
        )
    yield {"type": "message_start", "message": {"usage": None}}
    yield from mixed(draw, *streams)
    yield {"type": "message_delta", "delta": {"stop_reason": "stop"}}


def as_chat(draw: st.DrawFn, message: Message) -> Iterator[Any]:
    streams = []
    for part in message.parts:
        if isinstance(part, ToolCall):
            index = message.calls.index(part)
            first, *rest = pieces(draw, json.dumps(part.arguments))
            fragment = {"index": index, "id": part.id, "function": {"name": part.name, "arguments": first}}
            more = [{"index": index, "function": {"arguments": piece}} for piece in rest]
            streams.append([{"tool_calls": [one]} for one in (fragment, *more)])
        else:
            field = "content" if isinstance(part, Text) else draw(st.sampled_from(["reasoning", "reasoning_content"]))
            streams.append([{field: piece} for piece in pieces(draw, part.text)])
    # Calls start in order, whatever their fragments are mixed with.
    begun = [stream.pop(0) for stream in streams]
    for delta in (*begun, *mixed(draw, *streams)):
        yield {"choices": [{"index": 0, "delta": delta, "finish_reason": None}]}
    yield {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}


def as_responses(draw: st.DrawFn, message: Message) -> Iterator[Any]:
    streams, output = [], []
    for part in message.parts:
        if isinstance(part, ToolCall):
            arguments = json.dumps(part.arguments)
            output.append({"type": "function_call", "call_id": part.id, "name": part.name, "arguments": arguments})
        elif isinstance(part, Thinking):
            output.append({"type": "reasoning", "summary": [{"text": part.text}]})
            kind = "response.reasoning_summary_text.delta"
            streams.append([{"type": kind, "delta": piece} for piece in pieces(draw, part.text)])
        else:
            output.append({"type": "message", "content": [{"type": "output_text", "text": piece} for piece in [part.text]]})
            streams.append([{"type": "response.output_text.delta", "delta": piece} for piece in pieces(draw, part.text)])
    yield from mixed(draw, *streams)
    done = [{"type": "response.output_item.done", "output_index": at, "item": item} for at, item in enumerate(output)]
    left_out = draw(st.booleans())
    yield from draw(st.permutations(done)) if left_out else []
    yield {"type": "response.completed", "response": {"status": "stop", "output": [] if left_out else output}}


def written(provider: Any, draw: st.DrawFn, message: Message) -> list[Any]:
    write = {"anthropic": as_messages, "openai-responses": as_responses}.get(provider.name, as_chat)
    return list(write(draw, message))


def plain(message: Message) -> Message:
    """Return the message without provider metadata of thinking."""
    return Message("assistant", tuple(Thinking(p.text) if isinstance(p, Thinking) else p for p in message.parts))


@every_wire
@examples(100)
@given(data=st.data(), message=REPLIES)
def test_reply_is_the_same_however_its_stream_is_split(provider: Any, data: Any, message: Message) -> None:
    deltas, reply = read(provider, [*written(provider, data.draw, message), {}])
    assert plain(reply.message) == message
    thought = "".join(part.text for part in message.parts if isinstance(part, Thinking))
    assert joined(deltas) == (message.text, thought)
    assert reply.stop_reason == "stop"


# Any nonsense


WORDS = st.sampled_from(
    re.findall(
        r"\S+",
        """type index delta text content choices message usage id function name arguments tool_calls finish_reason stop_reason
        error content_block message_start message_delta content_block_start content_block_delta text_delta input_json_delta
        thinking thinking_delta signature_delta signature partial_json tool_use redacted_thinking input response output item
        output_index response.completed response.failed response.output_item.done response.output_text.delta reasoning summary
        function_call call_id status incomplete_details reason reasoning_content prompt_tokens input_tokens model code refusal
        prompt_tokens_details output_tokens_details cache_read_input_tokens encrypted_content summary_index
        response.reasoning_summary_part.added""",
    )
)
NONSENSE: Any = st.recursive(
    st.none() | st.booleans() | st.integers(-1, 3) | WORDS | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(WORDS, inner, max_size=5),
    max_leaves=12,
)


@st.composite
def spoiled(draw: st.DrawFn, provider: Any) -> list[Any]:
    """Return the pieces of a valid reply, some with invalid values."""
    chunks = written(provider, draw, draw(REPLIES))
    for _ in range(draw(st.integers(1, 3))):
        here = chunks[draw(st.integers(0, len(chunks) - 1))]
        while isinstance(here, dict | list) and here:
            key = draw(st.sampled_from(sorted(here)) if isinstance(here, dict) else st.integers(0, len(here) - 1))
            if not isinstance(here[key], dict | list) or draw(st.booleans()):
                here[key] = draw(NONSENSE)
                break
            here = here[key]
    return chunks


def take_all(provider: Any, chunks: list[Any]) -> None:
    """Read the pieces; the result must be a valid reply or a foreseen error."""
    try:
        deltas, reply = read(provider, chunks)
    except MAPPED:
        return
    assert all(isinstance(delta.text, str) for delta in deltas)
    assert isinstance(reply.stop_reason, str)
    assert all(isinstance(call.name, str) and isinstance(call.id, str) for call in reply.message.calls)
    assert all(isinstance(part.text, str) for part in reply.message.parts if isinstance(part, Text | Thinking))
    assert all(isinstance(count, int | None) for count in (reply.usage.input, reply.usage.output, reply.usage.cache_read))


WRONG = {"name": 7, "id": 7, "call_id": 7, "arguments": "{}"}
ILL_MADE = {
    "anthropic": {"content": [{"type": "tool_use", **WRONG}], "stop_reason": "tool_use"},
    "openai": {"choices": [{"message": {"tool_calls": [{"id": 7, "function": WRONG}]}, "finish_reason": "stop"}]},
    "openai-responses": {"status": "completed", "output": [{"type": "function_call", **WRONG}]},
}


def test_reply_with_wrongly_typed_fields_is_refused(subtests: pytest.Subtests) -> None:
    for provider in [ANTHROPIC, OPENAI, RESPONSES]:
        with subtests.test(provider.name):
            with pytest.raises(ValueError, match="Expected `str`, got `int`"):
                read(provider, provider.as_stream(ILL_MADE[provider.name]))


@every_wire
@examples(150)
@given(chunks=st.lists(NONSENSE, max_size=4))
def test_random_chunks_cause_only_expected_errors(provider: Any, chunks: list[Any]) -> None:
    take_all(provider, chunks)


@every_wire
@examples(150)
@given(data=st.data())
def test_corrupted_reply_is_read_or_causes_an_expected_error(provider: Any, data: Any) -> None:
    take_all(provider, data.draw(spoiled(provider)))


@every_wire
@examples(150)
@given(whole=NONSENSE)
def test_random_unstreamed_reply_causes_only_expected_errors(provider: Any, whole: Any) -> None:
    try:
        chunks = provider.as_stream(whole)
    except MAPPED:
        return
    take_all(provider, chunks)
