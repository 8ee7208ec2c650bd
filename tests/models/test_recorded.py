"""Exchanges with the real APIs, recorded by others (see ``recorded/README.md``): our readings read them, our requests match."""

from __future__ import annotations

import json
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from wire_by_hand import ANTHROPIC, COMPATIBLE, OPENAI, RESPONSES, assistant, joined, read, results, sent, user

from agentnb.core.messages import Text, Thinking, ToolCall, ToolResult
from agentnb.core.request import ToolSpec
from agentnb.core.usage import Usage

RECORDED = Path(__file__).parent / "recorded"
PROMPT = "Can you tell me more about the pydantic/pydantic-ai repo? Keep your answer short"
AFTERWARDS = "What packages does the repo contain?"


def recorded(name: str) -> Any:
    return json.loads((RECORDED / name).read_text("utf-8"))


def events(name: str) -> list[Any]:
    """The data of a stream of server-sent events."""
    lines = (RECORDED / name).read_text("utf-8").splitlines()
    return [json.loads(line.removeprefix("data: ")) for line in lines if line.startswith("data: ")]


def test_recordings_name_their_licence_and_source() -> None:
    assert "Permission is hereby granted" in (RECORDED / "LICENSE-pydantic-ai.txt").read_text("utf-8")
    told = (RECORDED / "README.md").read_text("utf-8")
    assert "4fda38988f2939fa6ea9cdefcf120693e10ef491" in told
    named = {path.name.split(".")[0] for path in RECORDED.glob("*.json")}
    assert named == {"anthropic", "openai", "openai-responses"} and all(f"`{name}.*`" in told for name in named)


# Anthropic, streamed: thinking, a tool of the provider and its result, text


def test_recorded_anthropic_stream_is_read() -> None:
    chunks = events("anthropic.response.sse")
    deltas, reply = read(ANTHROPIC, chunks)
    thought, use, found, answer = reply.message.parts
    assert isinstance(thought, Thinking) and thought.text.startswith("The user is asking about the pydantic/pydantic-ai rep")
    assert isinstance(answer, Text) and answer.text.startswith("**Pydantic-AI** is a framework")
    assert joined(deltas) == (answer.text, thought.text)
    assert reply.message.text == answer.text and reply.message.calls == ()
    assert use.provider_metadata["anthropic"]["input"]["repoName"] == "pydantic/pydantic-ai"
    assert found.provider_metadata["anthropic"]["content"][0]["text"].startswith("This repository, `pydantic/pydantic-ai`")
    assert (reply.stop_reason, reply.metadata["model"]) == ("end_turn", "claude-sonnet-4-5-20250929")
    assert reply.usage == Usage(input=3042, output=354, cache_read=0, cache_write=0)


def test_anthropic_content_is_sent_back_unchanged() -> None:
    chunks = events("anthropic.response.sse")
    started = [chunk["content_block"] for chunk in chunks if chunk["type"] == "content_block_start"]
    pieces = [chunk["delta"] for chunk in chunks if chunk["type"] == "content_block_delta"]

    def whole(kind: str, field: str) -> str:
        return "".join(piece[field] for piece in pieces if piece["type"] == kind)

    thought, use, found, answer = started
    content = sent(ANTHROPIC, user("Hi"), read(ANTHROPIC, chunks)[1].message, user("On"))["messages"][1]["content"]
    assert content == [
        {**thought, "thinking": whole("thinking_delta", "thinking"), "signature": whole("signature_delta", "signature")},
        {**use, "input": json.loads(whole("input_json_delta", "partial_json"))},
        found,
        {**answer, "text": whole("text_delta", "text")},
    ]
    assert use["type"] == "mcp_tool_use" and found["type"] == "mcp_tool_result"


def test_other_providers_get_only_the_text_of_anthropic_content() -> None:
    said = read(ANTHROPIC, events("anthropic.response.sse"))[1].message
    assert sent(OPENAI, user("Hi"), said, user("On"))["messages"][1] == {"role": "assistant", "content": said.text}
    content = [{"type": "output_text", "text": said.text}]
    assert sent(RESPONSES, user("Hi"), said, user("On"))["input"][1]["content"] == content


def test_anthropic_request_equals_the_recording_except_its_tools() -> None:
    request = recorded("anthropic.request.json")
    del request["mcp_servers"]  # tools that run at the provider are not ours
    model = request.pop("model")
    made = sent(ANTHROPIC, user(PROMPT), max_tokens=4096, thinking="3000", cache="no")
    assert made.pop("model") == "m" and model == "claude-sonnet-4-5"
    assert made == request


# OpenAI, whole: a call, its result, an answer

TOOL = ToolSpec(
    "get_capital",
    "Get the capital of a country.",
    {
        "additionalProperties": False,
        "properties": {"country": {"description": "The country name.", "type": "string"}},
        "required": ["country"],
    },
)


def conversation(provider: Any) -> list[Any]:
    """Return the recorded conversation as our messages, with its reply."""
    earlier = ToolCall("get_capital", {"country": "France"}, "pyd_ai_504f8147f83f44f3a5f14d87bfd01bda")
    messages = [
        user("What is the capital of France?"),
        assistant(earlier),
        results(ToolResult(earlier.id, earlier.name, (Text("Paris"),))),
        assistant("The capital of France is Paris.\n"),
        user("What is the capital of England?"),
    ]
    said = read(provider, provider.as_stream(recorded("openai.1.response.json")))[1].message
    return [*messages, said, results(ToolResult(said.calls[0].id, "get_capital", (Text("London"),)))]


def test_recorded_openai_replies_are_read(subtests: pytest.Subtests) -> None:
    for name, provider in {"openai": OPENAI, "compatible": COMPATIBLE}.items():
        with subtests.test(name):
            deltas, reply = read(provider, provider.as_stream(recorded("openai.1.response.json")))
            assert deltas == []
            assert reply.message == assistant(ToolCall("get_capital", {"country": "England"}, "call_SkEQ3ZGSJC8m6AvaIGNuuKdm"))
            assert reply.stop_reason == "tool_calls"
            assert reply.usage == Usage(input=104, output=16, cache_read=0, reasoning=0)
            deltas, reply = read(provider, provider.as_stream(recorded("openai.2.response.json")))
            assert joined(deltas) == (reply.message.text, "") == ("The capital of England is London.", "")
            assert (reply.stop_reason, reply.metadata["model"]) == ("stop", "gpt-4o-mini-2024-07-18")


def test_openai_requests_equal_the_recorded_ones(subtests: pytest.Subtests) -> None:
    for (name, provider), (number, length) in product({"openai": OPENAI, "compatible": COMPATIBLE}.items(), [(1, 5), (2, 7)]):
        with subtests.test(name=name, number=number):
            request = recorded(f"openai.{number}.request.json")
            messages = conversation(provider)[:length]
            made = sent(provider, *messages, tools=(TOOL,), settings={"tool_choice": "auto"}, stream=False)
            # We keep valid ids of the API, and write the null that others omit.
            made["messages"] = [{key: value for key, value in item.items() if value is not None} for item in made["messages"]]
            assert made == {key: value for key, value in request.items() if key not in ("model", "n", "stream")} | {
                "model": "m"
            }


# OpenAI Responses, whole: reasoning, a tool of the provider, text


def test_recorded_responses_api_replies_are_read() -> None:
    deltas, reply = read(RESPONSES, RESPONSES.as_stream(recorded("openai-responses.1.response.json")))
    kinds = [type(part) for part in reply.message.parts]
    assert kinds == [Text, Thinking, Text, Thinking, Text]
    assert reply.message.text.startswith("Pydantic AI is a Python agent framework") and "3.10\u20133.13" in reply.message.text
    assert joined(deltas) == (reply.message.text, "")
    assert (reply.stop_reason, reply.metadata["model"]) == ("completed", "o4-mini-2025-04-16")
    assert reply.usage == Usage(input=1207, output=535, cache_read=0, reasoning=320)


def test_responses_content_is_sent_back_unchanged() -> None:
    output = recorded("openai-responses.1.response.json")["output"]
    said = read(RESPONSES, RESPONSES.as_stream(recorded("openai-responses.1.response.json")))[1].message
    made = sent(RESPONSES, user(PROMPT), said, user(AFTERWARDS), system="You are a helpful assistant.")
    *own, words = made["input"][1:-1]
    assert own == [{key: value for key, value in item.items() if value is not None} for item in output[:-1]]
    assert words["content"] == [{"type": "output_text", "text": output[-1]["content"][0]["text"]}]


def test_responses_request_resembles_the_recording() -> None:
    request = recorded("openai-responses.2.request.json")
    said = read(RESPONSES, RESPONSES.as_stream(recorded("openai-responses.1.response.json")))[1].message
    made = sent(RESPONSES, user(PROMPT), said, user(AFTERWARDS), system="You are a helpful assistant.")
    assert (made["include"], made["instructions"]) == (request["include"], request["instructions"])
    assert [item.get("type", "message") for item in made["input"]] == [item.get("type", "message") for item in request["input"]]
    for ours, theirs in zip(made["input"], request["input"], strict=True):
        if theirs.get("type") == "reasoning":
            assert ours == theirs
        elif "content" in theirs:
            assert ours["role"] == theirs["role"] and words_of(ours) == words_of(theirs)
        else:
            assert ours["id"] == theirs["id"]


def words_of(item: Any) -> str:
    content = item["content"]
    return content if isinstance(content, str) else "".join(part["text"] for part in content)
