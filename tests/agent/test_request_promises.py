"""The request checker names each broken promise and accepts valid bodies."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from typing import Any

import pytest
from request_promises import complaints, refusals

from agentnb.testing.ids import make_seal

Body = dict[str, Any]
Spoil = Callable[[Body], Any]

SCHEMA = {"type": "object", "properties": {}}
IMAGE = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "iVBORw=="}}


def messages() -> Body:
    """Return a valid Messages body: two answered calls, then text."""
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
                    {"type": "thinking", "thinking": "hm", "signature": make_seal(["thinking", "hm"])},
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
    """Return the same for Chat Completions."""
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
    """Return the same for Responses."""
    call = {"type": "function_call", "name": "look", "arguments": "{}"}
    return {
        "model": "m",
        "store": False,
        "instructions": "Be brief.",
        "tools": [{"type": "function", "name": "look", "description": "Looks.", "parameters": SCHEMA, "strict": False}],
        "input": [
            {"type": "message", "role": "user", "content": "Look twice."},
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


def _ask_again(body: Body, call_id: str) -> None:
    """Add another answered call with this id after the one that has it."""
    call = {"id": call_id, "type": "function", "function": {"name": "look", "arguments": "{}"}}
    body["messages"][6] = {"role": "assistant", "content": None, "tool_calls": [call]}
    body["messages"].insert(7, {"role": "tool", "tool_call_id": call_id, "content": "seen"})


BROKEN: dict[str, dict[str, tuple[str, Spoil]]] = {
    "messages": {
        "an empty list of tools": ("the list of tools is empty", lambda b: b.update(tools=[])),
        "calls and no tools": ("there are calls and no tools", lambda b: b.pop("tools")),
        "two users in a row": ("two messages of the user", lambda b: b["messages"].pop(3)),
        "two replies in a row": ("two messages of the assistant", lambda b: b["messages"].insert(3, b["messages"][3])),
        "a result without content": ("of a result, is empty", lambda b: _blocks(b, 2)[0].update(content=[])),
        "a result with an empty text": ("of a result, is empty", lambda b: _blocks(b, 2)[0].update(content="")),
    },
    "chat": {
        "a tool without a schema": ("a tool has no schema", lambda b: b["tools"][0]["function"].pop("parameters")),
        "nobody asks": ("the user says nothing", lambda b: b.update(messages=b["messages"][:1])),
        "a second system prompt": ("a system prompt stands in the middle", lambda b: b["messages"][7].update(role="system")),
        "no first question": ("the model begins", lambda b: b["messages"].pop(1)),
        "two users in a row": ("two messages of the user", lambda b: b["messages"].pop(6)),
        "two replies in a row": ("two messages of the assistant", lambda b: b["messages"].insert(6, b["messages"][6])),
        "a reply at the end": ("the model has the last word", lambda b: b["messages"].pop()),
        "blank words": ("is blank", lambda b: b["messages"][5]["content"][0].update(text="  ")),
        "a blank system prompt": ("is blank", lambda b: b["messages"][0].update(content=" ")),
        "an empty result": ("of a result, is empty", lambda b: b["messages"][3].update(content="")),
        "an id of an earlier reply": ("the ids of the calls are not unique", lambda b: _ask_again(b, "a")),
        "an id with a blank": ("the ids of the calls are not unique, or none", lambda b: _ask_again(b, "a b")),
    },
    "responses": {
        "empty instructions": ("is blank", lambda b: b.update(instructions="")),
        "an empty list of tools": ("the list of tools is empty", lambda b: b.update(tools=[])),
        "no first question": ("the model begins", lambda b: b["input"].pop(0)),
        "a reply at the end": ("the model has the last word", lambda b: b["input"].pop()),
        "two users in a row": ("two messages of the user", lambda b: b["input"].pop(7)),
        "blank words": ("is blank", lambda b: b["input"][8].update(content=" ")),
        "an empty result": ("of a result, is empty", lambda b: b["input"][4].update(output="")),
        "words between results": ("something stands between", lambda b: b["input"].insert(5, b["input"].pop(7))),
    },
}


@pytest.mark.req("R0.25", "KX.11")
def test_valid_request_violates_no_rule(subtests: pytest.Subtests) -> None:
    for wire, good in GOOD.items():
        with subtests.test(wire):
            assert complaints(wire, good()) == []


@pytest.mark.req("R0.25", "KX.11")
def test_each_violated_request_rule_is_reported(subtests: pytest.Subtests) -> None:
    for wire, cases in BROKEN.items():
        for name, (sentence, spoil) in cases.items():
            with subtests.test(f"{wire}: {name}"):
                body = GOOD[wire]()
                spoil(body)
                assert refusals(wire, copy.deepcopy(body)) == [], "this is a rule of the wire"
                assert [one for one in complaints(wire, body) if sentence in one], json.dumps(body)


@pytest.mark.req("R0.25", "KX.11")
def test_request_refused_by_a_provider_violates_the_rules(subtests: pytest.Subtests) -> None:
    for wire, good in GOOD.items():
        with subtests.test(wire):
            body = good()
            body["messages" if wire != "responses" else "input"].clear()
            assert complaints(wire, body) == refusals(wire, body) != []
