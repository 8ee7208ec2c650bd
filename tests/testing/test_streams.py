"""Streams in their exact order, and as the provider libraries read them."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import anthropic
import openai
import pytest
from raw_http import MINIMAL, SCHEMA, post, streamed

from agentnb import ToolCall
from agentnb.core.messages import Thinking
from agentnb.testing import Answer, LoopbackServer, UnknownEvent

LINE = [
    Thinking("Let me think"),
    "Here: ",
    "ünï 🦉",
    ToolCall("add", {"a": 1, "b": "é🦉"}),
    ToolCall("mul", {"x": [1, 2, {"y": None}]}),
]


@asynccontextmanager
async def claude(server: LoopbackServer) -> AsyncIterator[anthropic.AsyncAnthropic]:
    async with anthropic.AsyncAnthropic(api_key="x", base_url=server.url, max_retries=0) as client:
        yield client


@asynccontextmanager
async def gpt(server: LoopbackServer) -> AsyncIterator[openai.AsyncOpenAI]:
    async with openai.AsyncOpenAI(api_key="x", base_url=f"{server.url}/v1", max_retries=0) as client:
        yield client


def with_server(line: Any, work: Callable[[LoopbackServer], Any]) -> Any:
    with LoopbackServer(lambda _: line) as server:
        return asyncio.run(work(server))


def test_messages_events_are_sent_in_the_real_order() -> None:
    with LoopbackServer([["a b", ToolCall("add", {"a": 1})]]) as server:
        answered = post(server, "messages", streamed("messages"))
    assert answered.headers["content-type"].startswith("text/event-stream")
    names = [name for name, _ in answered.events]
    block = ["content_block_start", "content_block_delta", "content_block_delta"]
    assert names == [
        "message_start",
        "content_block_start",
        "ping",
        "content_block_delta",
        "content_block_delta",
        "content_block_stop",
        *block,
        "content_block_delta",
        "content_block_stop",
        "message_delta",
        "message_stop",
    ]
    assert [data["type"] for _, data in answered.events] == names


def test_messages_library_reads_the_stream() -> None:
    async def work(server: LoopbackServer) -> None:
        async with claude(server) as client, client.messages.stream(**MINIMAL["messages"]) as stream:
            message = await stream.get_final_message()
        thinking, first, second, add, mul = message.content
        assert (thinking.type, thinking.thinking) == ("thinking", "Let me think")
        assert thinking.signature
        assert (first.text, second.text) == ("Here: ", "ünï 🦉")
        assert (add.name, add.input, mul.input) == ("add", {"a": 1, "b": "é🦉"}, {"x": [1, 2, {"y": None}]})
        assert message.stop_reason == "tool_use"
        assert message.usage.output_tokens > 10

    with_server(LINE, work)


def test_messages_library_reads_streamed_and_complete_replies_identically() -> None:
    async def work(server: LoopbackServer) -> None:
        async with claude(server) as client:
            whole = await client.messages.create(**MINIMAL["messages"])
            async with client.messages.stream(**MINIMAL["messages"]) as stream:
                message = await stream.get_final_message()
        plain = [
            [block.model_dump(exclude={"id", "signature", "parsed_output"}) for block in m.content] for m in (whole, message)
        ]
        assert plain[0] == plain[1]
        assert whole.usage.output_tokens == message.usage.output_tokens

    with_server(LINE, work)


def test_messages_library_lists_the_models() -> None:
    async def work(server: LoopbackServer) -> None:
        async with claude(server) as client:
            assert [model.id async for model in client.models.list()] == ["loopback"]
        async with gpt(server) as client:
            assert [model.id async for model in client.models.list()] == ["loopback"]

    with_server("x", work)


def test_parallel_calls_on_the_chat_wire_are_interleaved() -> None:
    with LoopbackServer([LINE]) as server:
        events = post(server, "chat", streamed("chat")).events
    assert events[-1] == (None, "[DONE]")
    pieces = [piece for _, data in events[:-1] for c in data["choices"] for piece in c["delta"].get("tool_calls", [])]
    assert [piece["index"] for piece in pieces[:6]] == [0, 1, 0, 1, 0, 1]
    assert [("id" in piece, "name" in piece["function"]) for piece in pieces[:3]] == [
        (True, True),
        (True, True),
        (False, False),
    ]
    assert all(len(piece["function"]["arguments"]) <= 6 for piece in pieces)


def test_chat_stream_usage_is_sent_only_on_request(subtests: pytest.Subtests) -> None:
    for wanted in [True, False]:
        with subtests.test(wanted=wanted):
            body = streamed("chat", stream_options={"include_usage": True}) if wanted else streamed("chat")
            with LoopbackServer(["one two"]) as server:
                chunks = [data for _, data in post(server, "chat", body).events[:-1]]
            assert (chunks[-1]["choices"] == []) is wanted
            assert ("usage" in chunks[0]) is wanted
            if wanted:
                assert chunks[0]["usage"] is None
                assert chunks[-1]["usage"]["completion_tokens"] == 3


def test_chat_library_reads_streamed_and_complete_replies_identically() -> None:
    async def work(server: LoopbackServer) -> None:
        async with gpt(server) as client:
            options = {"stream_options": {"include_usage": True}}
            async with client.chat.completions.stream(**MINIMAL["chat"], **options) as stream:
                helped = await stream.get_final_completion()
            whole = await client.chat.completions.create(**MINIMAL["chat"])
            text = thought = ""
            async for chunk in await client.chat.completions.create(**MINIMAL["chat"], stream=True):
                delta = chunk.choices[0].delta
                text += delta.content or ""
                thought += (delta.model_extra or {}).get("reasoning_content", "")
        message = whole.choices[0].message
        assert text == message.content == helped.choices[0].message.content == "Here: ünï 🦉"
        assert thought == message.model_extra["reasoning_content"] == "Let me think"
        calls = [(call.function.name, json.loads(call.function.arguments)) for call in message.tool_calls]
        assert calls == [("add", {"a": 1, "b": "é🦉"}), ("mul", {"x": [1, 2, {"y": None}]})]
        assert [call.function.arguments for call in helped.choices[0].message.tool_calls] == [
            call.function.arguments for call in message.tool_calls
        ]
        assert whole.choices[0].finish_reason == helped.choices[0].finish_reason == "tool_calls"
        assert helped.usage.completion_tokens == whole.usage.completion_tokens

    with_server(LINE, work)


def test_responses_events_are_numbered_in_the_real_order() -> None:
    with LoopbackServer([[Thinking("hm"), "a", ToolCall("add", {"a": 1})]]) as server:
        events = post(server, "responses", streamed("responses")).events
    assert [name for name, _ in events] == [
        "response.created",
        "response.in_progress",
        "response.output_item.added",
        "response.reasoning_summary_part.added",
        "response.reasoning_summary_text.delta",
        "response.reasoning_summary_text.done",
        "response.reasoning_summary_part.done",
        "response.output_item.done",
        "response.output_item.added",
        "response.content_part.added",
        "response.output_text.delta",
        "response.output_text.done",
        "response.content_part.done",
        "response.output_item.done",
        "response.output_item.added",
        "response.function_call_arguments.delta",
        "response.function_call_arguments.delta",
        "response.function_call_arguments.done",
        "response.output_item.done",
        "response.completed",
    ]
    assert [data["sequence_number"] for _, data in events] == list(range(len(events)))
    assert [data["type"] for _, data in events] == [name for name, _ in events]


def test_responses_library_reads_streamed_and_complete_replies_identically() -> None:
    async def work(server: LoopbackServer) -> None:
        async with gpt(server) as client:
            async with client.responses.stream(**MINIMAL["responses"]) as stream:
                kinds = [event.type async for event in stream]
                streamed_response = await stream.get_final_response()
            whole = await client.responses.create(**MINIMAL["responses"])
        assert kinds[-1] == "response.completed"
        for response in (streamed_response, whole):
            thought, message, add, mul = response.output
            assert thought.summary[0].text == "Let me think"
            assert thought.encrypted_content
            assert response.output_text == "Here: ünï 🦉"
            assert (message.type, add.name, json.loads(mul.arguments)) == ("message", "add", {"x": [1, 2, {"y": None}]})
            assert response.usage.total_tokens == response.usage.input_tokens + response.usage.output_tokens

    with_server(LINE, work)


def test_client_libraries_read_unusual_replies(subtests: pytest.Subtests) -> None:
    cases = [[], "", Answer(["cut"], stop_reason="max_tokens"), Answer(["no"], stop_reason="refusal"), UnknownEvent(LINE)]
    for line in cases:
        with subtests.test(line=line):

            async def work(server: LoopbackServer) -> None:
                async with claude(server) as client, client.messages.stream(**MINIMAL["messages"]) as stream:
                    await stream.get_final_message()
                async with gpt(server) as client:
                    async for _ in await client.chat.completions.create(**MINIMAL["chat"], stream=True):
                        pass
                    async for _ in await client.responses.create(**MINIMAL["responses"], stream=True):
                        pass

            with_server(line, work)


def test_messages_library_continues_a_conversation_with_received_content() -> None:
    async def work(server: LoopbackServer) -> None:
        tools = [{"name": name, "input_schema": SCHEMA} for name in ("add", "mul")]
        async with claude(server) as client:
            first = await client.messages.create(**MINIMAL["messages"], tools=tools)
            results = [{"type": "tool_result", "tool_use_id": call.id, "content": "3"} for call in first.content[3:]]
            assistant = {"role": "assistant", "content": [block.model_dump(exclude_none=True) for block in first.content]}
            messages = [*MINIMAL["messages"]["messages"], assistant, {"role": "user", "content": results}]
            await client.messages.create(**{**MINIMAL["messages"], "messages": messages}, tools=tools)

    with_server(LINE, work)


def test_responses_library_continues_a_conversation_with_received_content() -> None:
    async def work(server: LoopbackServer) -> None:
        async with gpt(server) as client:
            first = await client.responses.create(**MINIMAL["responses"])
            items = [*MINIMAL["responses"]["input"], *(item.model_dump(exclude_none=True) for item in first.output)]
            items += [{"type": "function_call_output", "call_id": call.call_id, "output": "3"} for call in first.output[2:]]
            await client.responses.create(**{**MINIMAL["responses"], "input": items})

    with_server(LINE, work)
