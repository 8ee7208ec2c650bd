"""The independent judge of requests is itself judged: it finds each kind of mistake, and nothing in what is right."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from typing import Any

import pytest
from wire_checker import complaints

Body = dict[str, Any]
Spoil = Callable[[Body], Any]

SCHEMA = {"type": "object", "properties": {}}
IMAGE = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "iVBORw0="}}


def messages() -> Body:
    """A good body of Anthropic's Messages: two calls, answered; then words."""
    return {
        "model": "m",
        "max_tokens": 10,
        "system": [{"type": "text", "text": "Be brief."}],
        "tools": [{"name": "look", "description": "Looks.", "input_schema": SCHEMA}],
        "messages": [
            {"role": "user", "content": "Look twice."},
            {
                "role": "assistant",
                "content": [
                    {"type": "thinking", "thinking": "hm", "signature": "s"},
                    {"type": "text", "text": "I look."},
                    {"type": "tool_use", "id": "a", "name": "look", "input": {}},
                    {"type": "tool_use", "id": "b", "name": "look", "input": {"x": 1}},
                ],
            },
            {
                "role": "user",
                "content": [
                    {"type": "tool_result", "tool_use_id": "a", "content": [{"type": "text", "text": "seen"}, IMAGE]},
                    {"type": "tool_result", "tool_use_id": "b", "content": "no", "is_error": True},
                    {"type": "text", "text": "And now?", "cache_control": {"type": "ephemeral"}},
                ],
            },
            {"role": "assistant", "content": [{"type": "text", "text": "Done."}]},
            {"role": "user", "content": [{"type": "text", "text": "Thanks."}]},
        ],
    }


def chat() -> Body:
    """The same for Chat Completions."""
    call = {"type": "function", "function": {"name": "look", "arguments": "{}"}}
    return {
        "model": "m",
        "stream": True,
        "stream_options": {"include_usage": True},
        "tools": [{"type": "function", "function": {"name": "look", "description": "Looks.", "parameters": SCHEMA}}],
        "messages": [
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content": "Look twice."},
            {"role": "assistant", "content": None, "tool_calls": [{"id": "a", **call}, {"id": "b", **call}]},
            {"role": "tool", "tool_call_id": "a", "content": "seen"},
            {"role": "tool", "tool_call_id": "b", "content": "no"},
            {"role": "user", "content": [{"type": "text", "text": "And now?"}]},
            {"role": "assistant", "content": "Done."},
            {"role": "user", "content": "Thanks."},
        ],
    }


def responses() -> Body:
    """The same for Responses."""
    call = {"type": "function_call", "name": "look", "arguments": "{}"}
    return {
        "model": "m",
        "store": False,
        "instructions": "Be brief.",
        "tools": [{"type": "function", "name": "look", "description": "Looks.", "parameters": SCHEMA, "strict": False}],
        "input": [
            {"type": "message", "role": "user", "content": "Look twice."},
            {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "x"},
            {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "I look."}]},
            {**call, "call_id": "a"},
            {**call, "call_id": "b"},
            {"type": "function_call_output", "call_id": "a", "output": "seen"},
            {"type": "function_call_output", "call_id": "b", "output": [{"type": "input_text", "text": "no"}]},
            {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "And now?"}]},
            {"type": "message", "role": "assistant", "content": "Done."},
            {"type": "message", "role": "user", "content": "Thanks."},
        ],
    }


GOOD: dict[str, Callable[[], Body]] = {"messages": messages, "chat": chat, "responses": responses}


def _blocks(body: Body, place: int) -> list[Any]:
    return body["messages"][place]["content"]  # type: ignore[no-any-return]


OF_MESSAGES: dict[str, Spoil] = {
    "no model is named": lambda b: b.pop("model"),
    "max_tokens is no number above 0": lambda b: b.pop("max_tokens"),
    "temperature is refused": lambda b: b.update(temperature=0),
    "the system prompt holds an empty text": lambda b: b.update(system=" "),
    "tools is there and holds none": lambda b: b.update(tools=[]),
    "is no name of a tool": lambda b: b["tools"][0].update(name="look at"),
    "two tools are called 'look'": lambda b: b["tools"].append(b["tools"][0]),
    "has no schema of an object": lambda b: b["tools"][0].update(input_schema={}),
    "tool_choice without tools": lambda b: (b.pop("tools"), b.update(tool_choice={"type": "auto"})),
    "there are calls and no tools": lambda b: b.pop("tools"),
    "5 marks for the cache": lambda b: [one.update(cache_control={}) for one in _blocks(b, 1)],
    "there are no messages": lambda b: b.update(messages=[]),
    "message 3 is of the role 'tool'": lambda b: b["messages"][3].update(role="tool"),
    "message 0 begins a conversation as the assistant": lambda b: b["messages"].pop(0),
    "message 3 is a second one of the user": lambda b: b["messages"].pop(3),
    "the last message is the assistant's": lambda b: b["messages"].pop(),
    "message 4 is empty": lambda b: b["messages"][4].update(content=[]),
    "message 4 has an empty text": lambda b: _blocks(b, 4)[0].update(text=" \n"),
    "message 3 has an empty text": lambda b: _blocks(b, 3)[0].update(text=""),
    "message 4 has a block 'tool_use' of the user": lambda b: _blocks(b, 4).append({"type": "tool_use"}),
    "message 3 has a block 'tool_result' of the assistant": lambda b: _blocks(b, 3).append({"type": "tool_result"}),
    "has a result behind other content": lambda b: _blocks(b, 2).insert(0, _blocks(b, 2).pop()),
    "has a result without content": lambda b: _blocks(b, 2)[0].update(content=[]),
    "has a result with an empty text": lambda b: _blocks(b, 2)[1].update(content=""),
    "has a result with a block 'tool_use'": lambda b: _blocks(b, 2)[0].update(content=[{"type": "tool_use"}]),
    "has an error with a block 'image'": lambda b: _blocks(b, 2)[1].update(content=[IMAGE]),
    "a result of which is_error is 'no'": lambda b: _blocks(b, 2)[1].update(is_error="no"),
    "the call b has no answer": lambda b: _blocks(b, 2).pop(1),
    "the call a is answered twice": lambda b: _blocks(b, 2).insert(1, _blocks(b, 2)[0]),
    "an answer to 'c', which nobody called": lambda b: _blocks(b, 2)[0].update(tool_use_id="c"),
    "the answer to b stands too late": lambda b: _blocks(b, 4).insert(0, _blocks(b, 2).pop(1)),
    "the call c has no answer": lambda b: _blocks(b, 3).append({"type": "tool_use", "id": "c", "name": "look", "input": {}}),
    "the id a is that of two calls": lambda b: _blocks(b, 1)[3].update(id="a"),
    "'a b' is no id of a call": lambda b: _blocks(b, 1)[2].update(id="a b"),
    "has a call of which the input is no object": lambda b: _blocks(b, 1)[2].update(input="{}"),
    "has a call of 'look at', which is no name": lambda b: _blocks(b, 1)[2].update(name="look at"),
    "message 1 ends with thinking": lambda b: _blocks(b, 1).append(_blocks(b, 1)[0]),
    "has thinking without its signature": lambda b: _blocks(b, 1)[0].pop("signature"),
}


def _call(body: Body, number: int = 0) -> Body:
    return body["messages"][2]["tool_calls"][number]  # type: ignore[no-any-return]


OF_CHAT: dict[str, Spoil] = {
    "no model is named": lambda b: b.update(model=""),
    "tools is there and holds none": lambda b: b.update(tools=[]),
    "is no name of a tool": lambda b: b["tools"][0]["function"].update(name=""),
    "two tools are called 'look'": lambda b: b["tools"].append(b["tools"][0]),
    "has no schema of an object": lambda b: b["tools"][0]["function"].pop("parameters"),
    "tool_choice without tools": lambda b: (b.pop("tools"), b.update(tool_choice="auto")),
    "parallel_tool_calls without tools": lambda b: (b.pop("tools"), b.update(parallel_tool_calls=True)),
    "stream_options without a stream": lambda b: b.pop("stream"),
    "there are no messages": lambda b: b.pop("messages"),
    "nobody asks anything": lambda b: b.update(messages=b["messages"][:1]),
    "message 7 is of the role 'person'": lambda b: b["messages"][7].update(role="person"),
    "message 7 is a system prompt in the middle": lambda b: b["messages"][7].update(role="system"),
    "begins a conversation as the assistant": lambda b: b["messages"].pop(1),
    "message 6 is a second one of the user": lambda b: b["messages"].pop(6),
    "message 7 is a second one of the assistant": lambda b: b["messages"].insert(6, b["messages"][6]),
    "the last message is the assistant's": lambda b: b["messages"].pop(),
    "message 7 is empty": lambda b: b["messages"][7].update(content=None),
    "message 7 has an empty text": lambda b: b["messages"][7].update(content=""),
    "message 5 has an empty text": lambda b: b["messages"][5]["content"][0].update(text="  "),
    "message 3 has an empty text": lambda b: b["messages"][3].update(content=""),
    "message 6 has neither content nor calls": lambda b: b["messages"][6].update(content=None),
    "message 6 has a list of no calls": lambda b: b["messages"][6].update(tool_calls=[]),
    "message 7 has calls of the user": lambda b: b["messages"][7].update(tool_calls=[_call(b)]),
    "the call b has no answer before message 4": lambda b: b["messages"].pop(4),
    "the call a is answered twice": lambda b: b["messages"].insert(4, b["messages"][3]),
    "the answer to b stands too late": lambda b: b["messages"].append(b["messages"].pop(4)),
    "an answer to 'c', which nobody called": lambda b: b["messages"][3].update(tool_call_id="c"),
    "the id a is that of two calls": lambda b: _call(b, 1).update(id="a"),
    f"'{'x' * 41}' is no id of a call": lambda b: _call(b).update(id="x" * 41),
    "a call of the type 'tool'": lambda b: _call(b).update(type="tool"),
    "a call of 'look at', which is no name": lambda b: _call(b).update(function={"name": "look at", "arguments": "{}"}),
    "message 2 has arguments that are no JSON object": lambda b: _call(b)["function"].update(arguments='{"x": '),
}
OF_RESPONSES: dict[str, Spoil] = {
    "no model is named": lambda b: b.pop("model"),
    "the instructions are empty": lambda b: b.update(instructions=""),
    "it leans on a conversation of the provider's": lambda b: b.update(previous_response_id="resp_1"),
    "tools is there and holds none": lambda b: b.update(tools=[]),
    "is no name of a tool": lambda b: b["tools"][0].update(name="a" * 65),
    "two tools are called 'look'": lambda b: b["tools"].append(b["tools"][0]),
    "has no schema of an object": lambda b: b["tools"][0].update(parameters=None),
    "tool_choice without tools": lambda b: (b.pop("tools"), b.update(tool_choice="auto")),
    "there is no input": lambda b: b.update(input=[]),
    "item 9 is of the type 'tool'": lambda b: b["input"][9].update(type="tool"),
    "item 0 begins a conversation as the assistant": lambda b: b["input"].pop(0),
    "the last item is the assistant's": lambda b: b["input"].pop(),
    "item 9 is of the role 'person'": lambda b: b["input"][9].update(role="person"),
    "item 8 is a second one of the user": lambda b: b["input"].pop(8),
    "item 9 is empty": lambda b: b["input"][9].update(content=[]),
    "item 9 has an empty text": lambda b: b["input"][9].update(content=" "),
    "item 6 has an empty text": lambda b: b["input"][6]["output"][0].update(text=""),
    "item 5 has an empty text": lambda b: b["input"][5].update(output=""),
    "item 7 has a part 'output_text'": lambda b: b["input"][7]["content"][0].update(type="output_text"),
    "item 2 has a part 'input_text'": lambda b: b["input"][2]["content"][0].update(type="input_text"),
    "the call b has no answer before item 6": lambda b: b["input"].pop(6),
    "the call a has no answer before item 6": lambda b: b["input"].insert(8, b["input"].pop(5)),
    "the call a is answered twice": lambda b: b["input"].insert(6, b["input"][5]),
    "the answer to b stands too late": lambda b: b["input"].append(b["input"].pop(6)),
    "an answer to 'c', which nobody called": lambda b: b["input"][5].update(call_id="c"),
    "the id a is that of two calls": lambda b: b["input"][4].update(call_id="a"),
    "None is no id of a call": lambda b: b["input"][4].pop("call_id"),
    "item 3 is a call of '', which is no name": lambda b: b["input"][3].update(name=""),
    "item 3 has arguments that are no JSON object": lambda b: b["input"][3].update(arguments="[]"),
}
SPOILED = [
    pytest.param(wire, sentence, spoil, id=f"{wire}: {sentence}")
    for wire, spoils in (("messages", OF_MESSAGES), ("chat", OF_CHAT), ("responses", OF_RESPONSES))
    for sentence, spoil in spoils.items()
]


@pytest.mark.req("R0.25", "KX.11")
@pytest.mark.parametrize("wire", GOOD)
def test_a_good_request_is_not_complained_about(wire: str) -> None:
    assert complaints(wire, GOOD[wire]()) == []


@pytest.mark.req("R0.25", "KX.11")
@pytest.mark.parametrize(("wire", "sentence", "spoil"), SPOILED)
def test_each_mistake_in_a_request_is_named(wire: str, sentence: str, spoil: Spoil) -> None:
    body = GOOD[wire]()
    spoil(body)
    assert [one for one in complaints(wire, copy.deepcopy(body)) if sentence in one], json.dumps(body)
