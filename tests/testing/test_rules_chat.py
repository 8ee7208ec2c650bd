"""A case for every refusal of Chat Completions, and some accepted requests."""

from __future__ import annotations

import copy
from collections.abc import Callable
from itertools import product
from typing import Any

import pytest
from raw_http import PNG, SCHEMA

from agentnb.testing.requests.rules_chat import problems

URL = f"data:image/png;base64,{PNG}"


def user(content: Any = "Hi") -> dict[str, Any]:
    return {"role": "user", "content": content}


def call(call_id: str = "c1", name: str = "add", arguments: Any = "{}") -> dict[str, Any]:
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}


def assistant(*calls: dict[str, Any], content: Any = None) -> dict[str, Any]:
    return {"role": "assistant", "content": content, "tool_calls": list(calls)}


def result(call_id: str = "c1", content: Any = "3", **more: Any) -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": call_id, "content": content, **more}


def tool(**function: Any) -> dict[str, Any]:
    return {"type": "function", "function": {"name": "add", "description": "adds", "parameters": SCHEMA, **function}}


def good() -> dict[str, Any]:
    return {
        "model": "m",
        "messages": [
            {"role": "system", "content": "Be good"},
            user([{"type": "text", "text": "Hi"}, {"type": "image_url", "image_url": {"url": URL, "detail": "low"}}]),
            assistant(call("c1"), call("c2")),
            result("c2"),
            result("c1", [{"type": "text", "text": "3"}]),
            {"role": "assistant", "content": "Done"},
            user(),
        ],
        "tools": [tool()],
        "stream": True,
        "stream_options": {"include_usage": True},
        "max_tokens": 100,
        "temperature": 0,
        "stop": ["END"],
    }


def said(change: Callable[[dict[str, Any]], Any], minimal: bool = False) -> list[str]:
    body = copy.deepcopy(good())
    change(body)
    return problems(body, minimal)


def fields(**more: Any) -> Callable[[dict[str, Any]], Any]:
    return lambda body: body.update(more)


def messages(*given: Any) -> Callable[[dict[str, Any]], Any]:
    return lambda body: body.update(messages=list(given))


def answered(*calls: dict[str, Any]) -> Callable[[dict[str, Any]], Any]:
    return messages(user(), assistant(*calls), *(result(one["id"]) for one in calls))


def tools(*given: Any) -> Callable[[dict[str, Any]], Any]:
    return lambda body: body.update(tools=list(given))


REFUSED = {
    "no model": (lambda body: body.pop("model"), "Missing required parameter: 'model'"),
    "an empty name of a model": (fields(model=""), "you must provide a model parameter"),
    "no messages": (lambda body: body.pop("messages"), "Missing required parameter: 'messages'"),
    "an empty list of messages": (messages(), "Invalid 'messages': empty array"),
    "messages that are no list": (fields(messages="Hi"), "Invalid type for 'messages'"),
    "an unknown field": (fields(colour="red"), "Unknown parameter: 'colour'"),
    "a stream that is neither true nor false": (fields(stream="yes"), "Invalid type for 'stream'"),
    "no tokens": (fields(max_tokens=0), "Invalid 'max_tokens'"),
    "tokens said twice": (fields(max_completion_tokens=9), "at the same time is not supported"),
    "options of a stream without a stream": (fields(stream=False), "only allowed when 'stream' is enabled"),
    "an unknown option of a stream": (fields(stream_options={"colour": 1}), "Unknown parameter: 'stream_options.colour'"),
    "a choice without tools": (
        lambda body: (body.pop("tools"), body.update(tool_choice="auto")),
        "'tool_choice' is only allowed when",
    ),
    "parallel calls without tools": (
        lambda body: (body.pop("tools"), body.update(parallel_tool_calls=True)),
        "'parallel_tool_calls' is only allowed when",
    ),
    "an unknown choice": (fields(tool_choice="any"), "Invalid value: 'any'"),
    "the choice of a tool that is not there": (
        fields(tool_choice={"type": "function", "function": {"name": "sub"}}),
        "tool 'sub' is not specified",
    ),
    "no tools in the list": (tools(), "Invalid 'tools': empty array"),
    "a tool of no type": (tools({"name": "add"}), "Invalid 'tools[0]'"),
    "an unknown field of a tool": (tools(tool(input_schema={})), "Unknown parameter: 'tools[0].function.input_schema'"),
    "a bad name of a tool": (tools(tool(name="add up")), "Invalid 'tools[0].function.name'"),
    "too long a name of a tool": (tools(tool(name="a" * 65)), "Invalid 'tools[0].function.name'"),
    "a schema that is not of an object": (tools(tool(parameters={"type": "array"})), "Invalid schema for function 'add'"),
    "a schema with alternatives": (
        tools(tool(parameters={"type": "object", "anyOf": [{}]})),
        "Invalid schema for function 'add': schema must have type 'object' and not have 'oneOf'/'anyOf'/'allOf'/'enum'/'not'",
    ),
    "an array of it knows not what": (
        tools(tool(parameters={"type": "object", "properties": {"a": {"type": "array"}}})),
        "Invalid schema for function 'add': In context=('properties', 'a'), array schema missing items.",
    ),
    "two tools of one name": (tools(tool(), tool()), "function names must be unique"),
    "an unknown role": (messages({"role": "function", "content": "x"}), "Invalid value: 'function'. Supported values are"),
    "a message that is not an object": (messages("Hi"), "Invalid value: 'None'"),
    "an unknown field of a message": (messages({**user(), "colour": 1}), "Unknown parameter: 'messages[0].colour'"),
    "what was thought": (
        messages(user(), {"role": "assistant", "content": "x", "reasoning_content": "y"}),
        "reasoning_content",
    ),
    "a name on a result": (messages(user(), assistant(call()), result(name="add")), "Unknown parameter: 'messages[2].name'"),
    "a message of nothing": (messages(user(None)), "Invalid value for 'messages[0].content'"),
    "a message of an empty text": (messages(user("")), "Invalid value for 'messages[0].content'"),
    "an empty system prompt": (messages({"role": "system", "content": ""}, user()), "Invalid value for 'messages[0].content'"),
    "no parts": (messages(user([])), "Invalid 'messages[0].content'"),
    "an empty part": (messages(user([{"type": "text", "text": ""}])), "Invalid 'messages[0].content[0].text': empty string"),
    "an unknown part": (messages(user([{"type": "image"}])), "Invalid value: 'image'"),
    "an unknown field of a part": (
        messages(user([{"type": "text", "text": "x", "cache_control": {}}])),
        "Unknown parameter: 'messages[0].content[0].cache_control'",
    ),
    "a picture in the system prompt": (
        messages({"role": "system", "content": [{"type": "image_url", "image_url": {"url": URL}}]}),
        "Invalid value: 'image_url'",
    ),
    "a picture in a result": (
        messages(user(), assistant(call()), result(content=[{"type": "image_url", "image_url": {"url": URL}}])),
        "Invalid value: 'image_url'",
    ),
    "a picture of another kind": (
        messages(user([{"type": "image_url", "image_url": {"url": "data:image/bmp;base64,eA=="}}])),
        "unsupported image",
    ),
    "a picture that is not base64": (
        messages(user([{"type": "image_url", "image_url": {"url": URL + "!"}}])),
        "unsupported image",
    ),
    "a picture as a bare address": (messages(user([{"type": "image_url", "image_url": URL}])), "Invalid type for"),
    "a result without an id": (messages(user(), assistant(call()), {"role": "tool", "content": "x"}), "Missing parameter"),
    "a result of nothing": (
        messages(user(), assistant(call()), result(content=None)),
        "Invalid value for 'messages[2].content'",
    ),
    "an assistant message without content": (
        messages(user(), {"role": "assistant", "content": None}),
        "content or tool_calls must be set",
    ),
    "an assistant with an empty text": (
        messages(user(), {"role": "assistant", "content": ""}),
        "content or tool_calls must be set",
    ),
    "an empty list of calls": (messages(user(), assistant(content="x")), "Invalid 'messages[1].tool_calls': empty array"),
    "a call that is no function": (
        messages(user(), assistant({"id": "c1", "name": "add"})),
        "Invalid 'messages[1].tool_calls[0]'",
    ),
    "a call with an index": (messages(user(), assistant({**call(), "index": 0})), "Invalid 'messages[1].tool_calls[0]'"),
    "a bad name of a call": (answered(call(name="a b")), "tool_calls[0].function.name'"),
    "a call without an id": (answered(call("")), "tool_calls[0].id'"),
    "too long an id": (answered(call("c" * 41)), "tool_calls[0].id': expected a string with maximum length 40"),
    "arguments as an object": (answered(call(arguments={})), "expected a string with a JSON object"),
    "arguments that are no JSON": (answered(call(arguments='{"a"')), "expected a string with a JSON object"),
    "arguments that are no object": (answered(call(arguments="[1]")), "expected a string with a JSON object"),
    "an unknown field of a call": (
        answered({**call(), "function": {"name": "add", "arguments": "{}", "id": 1}}),
        "Unknown parameter: 'messages[1].tool_calls[0].function.id'",
    ),
    "two calls of one id": (
        messages(user(), assistant(call(), call()), result()),
        "Duplicate value for 'tool_call_id' of 'c1' in messages[1]",
    ),
    "a call without a result": (
        messages(user(), assistant(call("c1"), call("c2")), result("c2"), user()),
        "did not have response messages: c1",
    ),
    "calls at the end": (messages(user(), assistant(call())), "did not have response messages: c1"),
    "a result too late": (messages(user(), assistant(call()), user(), result()), "did not have response messages: c1"),
    "a result without a call": (messages(user(), result("c9")), "must be a response to a preceeding message"),
    "a result of an older call": (
        messages(user(), assistant(call()), result(), {"role": "assistant", "content": "x"}, result()),
        "(messages[4])",
    ),
    "two results of one call": (
        messages(user(), assistant(call()), result(), result()),
        "Duplicate value for 'tool_call_id' of 'c1'",
    ),
}


def test_chat_wire_refuses_invalid_requests(subtests: pytest.Subtests) -> None:
    for (name, (change, wanted)), minimal in product(REFUSED.items(), [False, True]):
        with subtests.test(name, minimal=minimal):
            found = said(change, minimal)
            if minimal and wanted == "reasoning_content":
                assert found == []  # small servers take it back
                continue
            if minimal and ("tool_choice" in wanted or "parallel" in wanted or "at the same time" in wanted):
                assert found
            else:
                assert [problem for problem in found if wanted in problem], found


ACCEPTED = {
    "the usual": lambda body: None,
    "an empty result": messages(user(), assistant(call()), result(content="")),
    "an id used again later": messages(user(), assistant(call()), result(), assistant(call()), result()),
    "a text beside the calls": messages(user(), assistant(call(), content="Wait"), result()),
    "a picture on the web": messages(user([{"type": "image_url", "image_url": {"url": "https://example.org/x.png"}}])),
    "a tool without parameters": tools({"type": "function", "function": {"name": "add"}}),
    "a tool of the server's own": tools({"type": "custom", "custom": {"name": "x"}}),
    "a form of the answer": fields(response_format={"type": "json_object"}),
}


def test_chat_wire_accepts_valid_requests(subtests: pytest.Subtests) -> None:
    for (name, change), minimal in product(ACCEPTED.items(), [False, True]):
        with subtests.test(name, minimal=minimal):
            assert said(change, minimal) == []


ONLY_OPENAI = {
    "store": fields(store=False),
    "metadata": fields(metadata={"a": "b"}),
    "parallel_tool_calls": fields(parallel_tool_calls=False),
    "tool_choice": fields(tool_choice="auto"),
    "reasoning_effort": fields(reasoning_effort="low"),
    "prompt_cache_key": fields(prompt_cache_key="k"),
    "max_completion_tokens": lambda body: (body.pop("max_tokens"), body.update(max_completion_tokens=5)),
    "logprobs": fields(logprobs=True),
    "developer": messages({"role": "developer", "content": "Be good"}, user()),
}


def test_minimal_server_refuses_fields_only_openai_has(subtests: pytest.Subtests) -> None:
    for name, change in ONLY_OPENAI.items():
        with subtests.test(name):
            assert said(change) == []
            (problem,) = said(change, minimal=True)
            assert name in problem
