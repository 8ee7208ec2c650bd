"""``compatible:`` and ``ollama:``: only universal fields in requests, and tolerance for replies."""

from __future__ import annotations

import json
from itertools import product
from typing import Any

import pytest
from test_openai import calls, chunk, fragment
from wire_by_hand import (
    ADD,
    COMPATIBLE,
    OLLAMA,
    OPENAI,
    PNG,
    assistant,
    call,
    read,
    reply,
    requests_of_a_run,
    result,
    results,
    user,
)
from wire_by_hand import sent as wire

from agentnb.core.log.events import TextDelta, ThinkingDelta
from agentnb.core.messages import Text, Thinking, ToolCall
from agentnb.models.options import Options
from agentnb.models.provider import CutOff
from agentnb.models.providers.chat_chunks import MAX_LOOKS, as_stream
from agentnb.models.providers.serialization import read_arguments
from agentnb.testing.requests import rules_chat

FIELDS = {
    "model",
    "messages",
    "tools",
    "stream",
    "stream_options",
    "max_tokens",
    "temperature",
    "seed",
    "stop",
    "response_format",
}
"""Fields known to Ollama, vLLM and llama.cpp."""
ROLES = {"system", "user", "assistant", "tool"}


# The request


def test_only_universally_known_fields_are_sent(subtests: pytest.Subtests) -> None:
    for name, provider in {"compatible": COMPATIBLE, "ollama": OLLAMA}.items():
        with subtests.test(name):
            everything = {
                "max_tokens": 5,
                "temperature": 0.0,
                "seed": 7,
                "stop": ("a",),
                "output_schema": {"a": 1},
                "tools": (ADD,),
            }
            ignored = {"thinking": "adaptive", "cache": "1h"}
            body = wire(provider, system="Be.", **everything, **ignored)
            assert set(body) == FIELDS and set(body["stream_options"]) == {"include_usage"}
            assert (body["max_tokens"], body["temperature"], body["seed"], body["stop"]) == (5, 0.0, 7, ["a"])
            assert set(wire(provider, stream=False)) == {"model", "messages"}


def test_minimal_server_accepts_the_requests_of_a_run(subtests: pytest.Subtests) -> None:
    for name, provider in {"compatible": COMPATIBLE, "ollama": OLLAMA}.items():
        with subtests.test(name):
            for request in requests_of_a_run():
                body = json.loads(provider.body("m", request, Options(images=False)))
                assert rules_chat.problems(body, minimal=True) == []
                assert {message["role"] for message in body["messages"]} <= ROLES
                assert all(isinstance(message["content"], str | None) for message in body["messages"])


def test_optional_fields_are_sent_only_on_request() -> None:
    asked = wire(COMPATIBLE, tools=(ADD,), effort="low", settings={"tool_choice": "required"})
    assert set(asked) - FIELDS == {"reasoning_effort", "tool_choice"}


def test_tools_are_omitted_when_calls_are_not_allowed() -> None:
    asked = wire(COMPATIBLE, tools=(ADD,), settings={"tool_choice": "none"})
    assert not {"tools", "tool_choice"} & set(asked)
    assert wire(OPENAI, tools=(ADD,), settings={"tool_choice": "none"})["tool_choice"] == "none"


def test_thinking_is_sent_back_with_calls_or_on_request(subtests: pytest.Subtests) -> None:
    for field in ["reasoning", "reasoning_content"]:
        with subtests.test(field):
            said = reply(COMPATIBLE, chunk(**{field: "hm"}), chunk("stop", content="So.")).message
            assert said.parts == (Thinking("hm", {"compatible": {field: None}}), Text("So."))
            assert wire(COMPATIBLE, user("Hi"), said, user("On"), echo=True)["messages"][1][field] == "hm"
            assert set(wire(COMPATIBLE, user("Hi"), said, user("On"))["messages"][1]) == {"role", "content"}
            assert set(wire(OPENAI, user("Hi"), said, user("On"), echo=True)["messages"][1]) == {"role", "content"}
            called = (user("Hi"), assistant(*said.parts, call(1)), results(result(1, "1")))
            assert wire(COMPATIBLE, *called)["messages"][1][field] == "hm"
            assert field not in wire(COMPATIBLE, *called, echo=False)["messages"][1]


def test_extra_call_fields_are_sent_back_only_to_compatible_servers() -> None:
    given = {**fragment(0, "a", "add", '{"a":1}'), "extra_content": {"google": {"thought_signature": "s"}}, "type": "function"}
    said = reply(COMPATIBLE, *calls(given), chunk("tool_calls")).message
    conversation = (user("Go"), said, results(result(1, "1")))
    assert wire(COMPATIBLE, *conversation)["messages"][1]["tool_calls"][0]["extra_content"] == given["extra_content"]
    assert "extra_content" not in wire(OPENAI, *conversation)["messages"][1]["tool_calls"][0]


def test_pictures_are_sent_to_vision_models() -> None:
    body = wire(COMPATIBLE, user("See", PNG), assistant(call(1)), results(result(1, PNG)), images=True)
    assert body["messages"][0]["content"][1]["type"] == body["messages"][3]["content"][1]["type"] == "image_url"
    assert not COMPATIBLE.sees and not OLLAMA.sees


# The reply


FRAGMENTS = {
    "whole": [fragment(0, "a", "add", '{"a":1}'), fragment(1, "b", "add", '{"a":2}')],
    "no index": [fragment(None, "a", "add", '{"a":1}'), fragment(None, "b", "add", '{"a":2}')],
    "one index": [fragment(0, "a", "add", '{"a":1}'), fragment(0, "b", "add", '{"a":2}')],
    "arguments as an object": [fragment(0, "a", "add", {"a": 1}), fragment(1, "b", "add", {"a": 2})],
    "object and no index": [fragment(None, "a", "add", {"a": 1}), fragment(None, "b", "add", {"a": 2})],
    "one index, interleaved": [
        *(fragment(0, "a", "add", '{"a"'), fragment(0, "b", "add", '{"a"')),
        *(fragment(0, "a", None, ":1}"), fragment(0, "b", None, ":2}")),
    ],
    "no index, interleaved": [
        *(fragment(None, "a", "add", '{"a"'), fragment(None, "b", "add", '{"a"')),
        *(fragment(None, "a", None, ":1}"), fragment(None, "b", None, ":2}")),
    ],
    "one index, id once": [
        *(fragment(0, "a", "add", '{"a"'), fragment(0, None, None, ":1}")),
        *(fragment(0, "b", "add", '{"a"'), fragment(0, None, None, ":2}")),
    ],
    "no index, id once": [
        *(fragment(None, "a", "add", '{"a"'), fragment(None, None, None, ":1}")),
        *(fragment(None, "b", "add", '{"a"'), fragment(None, None, None, ":2}")),
    ],
    "names repeated": [
        *(fragment(0, "a", "add", '{"a"'), fragment(1, "b", "add", "{")),
        *(fragment(0, "a", "add", ":1}"), fragment(1, "b", "add", '"a":2}')),
    ],
    "ids later": [fragment(0, None, "add", '{"a":1}'), fragment(0, "a"), fragment(1, None, "add", '{"a":2}'), fragment(1, "b")],
}


def test_calls_are_distinguished_by_index_and_id(subtests: pytest.Subtests) -> None:
    for (name, fragments), together in product(FRAGMENTS.items(), [False, True]):
        with subtests.test(name, together=together):
            chunks = [chunk(tool_calls=fragments)] if together else calls(*fragments)
            answer = reply(COMPATIBLE, *chunks, chunk("tool_calls"))
            assert answer.message.calls == (ToolCall("add", {"a": 1}, "a"), ToolCall("add", {"a": 2}, "b"))


def test_calls_without_ids_are_separated_by_names_and_ends(subtests: pytest.Subtests) -> None:
    cases = {
        "whole": [fragment(None, None, "add", '{"a":1}'), fragment(None, None, "add", '{"a":2}')],
        "objects": [fragment(None, None, "add", {"a": 1}), fragment(None, None, "add", {"a": 2})],
        "one index": [fragment(0, None, "add", '{"a":1}'), fragment(0, None, "add", '{"a":2}')],
        "one index, objects": [fragment(0, "", "add", {"a": 1}), fragment(0, "", "add", {"a": 2})],
        "in pieces": [
            *(fragment(None, None, "add"), fragment(None, None, None, '{"a":'), fragment(None, None, None, "1}")),
            *(fragment(None, None, "add", '{"a"'), fragment(None, None, None, ":2}")),
        ],
        "in pieces with an index": [
            *(fragment(0, None, "add", '{"a"'), fragment(1, None, "add", '{"a"')),
            *(fragment(0, None, "add", ":1}"), fragment(1, None, None, ":2}")),
        ],
    }
    for name, fragments in cases.items():
        with subtests.test(name):
            answer = reply(COMPATIBLE, *calls(*fragments), chunk("tool_calls"))
            assert answer.message.calls == (ToolCall("add", {"a": 1}), ToolCall("add", {"a": 2})), "the loop gives the ids"


def test_call_without_index_and_id_starts_at_its_name() -> None:
    named = calls(fragment(name="now"), fragment(name="now"), fragment(name="add", arguments='{"a":1}'))
    answer = reply(COMPATIBLE, *named, chunk("stop"))
    assert answer.message.calls == (ToolCall("now"), ToolCall("now"), ToolCall("add", {"a": 1}))


def test_calls_sharing_an_id_stay_separate() -> None:
    function = {"name": "add", "arguments": '{"a":1}'}
    whole = {"choices": [{"message": {"tool_calls": [{"id": "x", "function": function}] * 2}, "finish_reason": "stop"}]}
    for chunks in (
        as_stream(whole),
        [*calls(fragment(0, "x", "add", '{"a":1}'), fragment(1, "x", "add", '{"a":1}')), chunk("x")],
    ):
        assert reply(COMPATIBLE, *chunks).message.calls == (ToolCall("add", {"a": 1}, "x"),) * 2


def test_call_end_repeating_the_name_does_not_start_another() -> None:
    chunks = calls(fragment(0, "a", "add", '{"a":1}'), fragment(0, None, "add", ""), fragment(0, None, "add"))
    assert reply(COMPATIBLE, *chunks, chunk("stop")).message.calls == (ToolCall("add", {"a": 1}, "a"),)


def test_call_without_a_function_is_returned_without_a_name() -> None:
    answer = reply(COMPATIBLE, *calls({"index": 0, "id": "a"}), chunk("tool_calls"))
    assert answer.message.calls == (ToolCall("", {}, "a"),)


def test_stream_without_a_stop_reason_is_cut_off(subtests: pytest.Subtests) -> None:
    cases = [
        [],
        [chunk(role="assistant")],
        [chunk(reasoning="hm")],
        [{"usage": {"prompt_tokens": 1}}],
        [chunk(content="So")],
        calls(fragment(0, "a", "add", '{"a":1}')),
    ]
    for (name, provider), chunks in product({"compatible": COMPATIBLE, "ollama": OLLAMA}.items(), cases):
        with subtests.test(name=name, chunks=chunks):
            with pytest.raises(CutOff):
                read(provider, chunks)


def test_thinking_in_both_fields_counts_once() -> None:
    deltas, answer = read(COMPATIBLE, [chunk(reasoning="hm", reasoning_content="hm"), chunk(content="a"), chunk("stop")])
    assert deltas == [ThinkingDelta("hm"), TextDelta("a")]
    assert answer.message.parts[0] == Thinking("hm", {"compatible": {"reasoning_content": None}})


def test_text_may_be_a_list_of_parts() -> None:
    parts = [{"type": "text", "text": "a"}, {"type": "thinking", "thinking": []}, "?", {"type": "text", "text": "b"}]
    assert reply(COMPATIBLE, chunk(content=parts), chunk("stop")).message == assistant("ab")


def test_different_name_starts_another_call() -> None:
    """With one shared index and no ids, the first call would run with the arguments of the second."""
    given = [fragment(0, None, "delete_old", ""), fragment(0, None, "list_new", '{"days": 365}')]
    for fragments in (given, [given[0], fragment(0, None, "list_new", ""), fragment(0, None, None, '{"days": 365}')]):
        answer = reply(COMPATIBLE, *calls(*fragments), chunk("tool_calls"))
        assert answer.message.calls == (ToolCall("delete_old"), ToolCall("list_new", {"days": 365}))


def test_name_repeated_in_each_fragment_does_not_start_another() -> None:
    for pieces in (['{"a":', ' {"b": 1}', "}", " "], ['{"a":', "{", '"b": 1}', "}", ""], ['{"a": "x}', '{y"', "}"]):
        answer = reply(COMPATIBLE, *calls(*(fragment(0, None, "add", piece) for piece in pieces)), chunk("tool_calls"))
        assert answer.message.calls == (ToolCall("add", json.loads("".join(pieces))),)


def test_arguments_are_not_parsed_again_for_every_fragment(monkeypatch: pytest.MonkeyPatch) -> None:
    looked: list[int] = []

    def counting(text: str) -> Any:
        looked.append(len(text))
        return read_arguments(text)

    monkeypatch.setattr("agentnb.models.providers.chat_chunks.read_arguments", counting)
    for piece in ("x", "{", "}", "}{"):
        looked.clear()
        fragments = [fragment(0, "a", "add", text) for text in ('{"a": "', *list(piece) * 500, '"}')]
        answer = reply(COMPATIBLE, *calls(*fragments), chunk("tool_calls"))
        assert answer.message.calls == (ToolCall("add", {"a": piece * 500}, "a"),)
        assert len(looked) <= MAX_LOOKS + 1
