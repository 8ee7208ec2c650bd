"""A case for every refusal of the Messages API, and some accepted requests."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
from raw_http import PNG, SCHEMA, post

from agentnb import ToolCall
from agentnb.core.messages import Thinking
from agentnb.testing import Answer, LoopbackServer, Opaque
from agentnb.testing.memory import Memory
from agentnb.testing.requests.rules_messages import problems

NOW = "2026-10-21"
MARK = {"type": "ephemeral"}


def text(words: Any = "Hi", **more: Any) -> dict[str, Any]:
    return {"type": "text", "text": words, **more}


def call(call_id: str = "t1", **more: Any) -> dict[str, Any]:
    return {"type": "tool_use", "id": call_id, "name": "add", "input": {}, **more}


def result(call_id: str = "t1", **more: Any) -> dict[str, Any]:
    return {"type": "tool_result", "tool_use_id": call_id, "content": "3", **more}


def user(*blocks: Any) -> dict[str, Any]:
    return {"role": "user", "content": list(blocks)}


def assistant(*blocks: Any) -> dict[str, Any]:
    return {"role": "assistant", "content": list(blocks)}


def image(**source: Any) -> dict[str, Any]:
    return {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PNG, **source}}


def good() -> dict[str, Any]:
    return {
        "model": "m",
        "max_tokens": 2048,
        "stream": True,
        "system": [text("Be good", cache_control=MARK)],
        "tools": [{"name": "add", "description": "adds", "input_schema": SCHEMA}],
        "messages": [
            {"role": "user", "content": "Hi"},
            assistant(text(), call("t1"), call("t2")),
            user(result("t2"), result("t1", is_error=True), text("And now?", cache_control=MARK)),
        ],
    }


def said(change: Callable[[dict[str, Any]], Any], version: str | None = NOW) -> list[str]:
    body = copy.deepcopy(good())
    change(body)
    return problems(body, Memory(), version)


def with_messages(*messages: dict[str, Any]) -> Callable[[dict[str, Any]], Any]:
    return lambda body: body.update(messages=list(messages))


def with_first(*blocks: Any) -> Callable[[dict[str, Any]], Any]:
    return with_messages(user(*blocks))


def with_calls(*blocks: Any) -> Callable[[dict[str, Any]], Any]:
    return with_messages(user(text()), assistant(*blocks), user(*(result(block["id"]) for block in blocks)))


def with_results(*blocks: Any) -> Callable[[dict[str, Any]], Any]:
    return with_messages(user(text()), assistant(call("t1"), call("t2")), user(*blocks))


def with_tool(**more: Any) -> Callable[[dict[str, Any]], Any]:
    return lambda body: body["tools"][0].update(more)


def with_fields(**more: Any) -> Callable[[dict[str, Any]], Any]:
    return lambda body: body.update(more)


REFUSED = {
    "no max_tokens": (lambda body: body.pop("max_tokens"), "max_tokens: Field required"),
    "no model": (lambda body: body.pop("model"), "model: Field required"),
    "an empty name of a model": (with_fields(model=""), "model: String should have at least 1 character"),
    "a reply that ends with thinking": (
        with_messages(user(text()), assistant(text(), {"type": "thinking", "thinking": "hm", "signature": "s"}), user(text())),
        "messages.1: The final block in an assistant message cannot be `thinking`",
    ),
    "no messages": (lambda body: body.pop("messages"), "messages: Field required"),
    "an empty list of messages": (with_messages(), "messages: at least one message is required"),
    "messages that are no list": (with_fields(messages="Hi"), "messages: Input should be a valid list"),
    "max_tokens that are no number": (with_fields(max_tokens="many"), "max_tokens: Input should be"),
    "a stream that is neither true nor false": (with_fields(stream="yes"), "stream: Input should be a valid boolean"),
    "an unknown field": (with_fields(colour="red"), "colour: Extra inputs are not permitted"),
    "temperature": (with_fields(temperature=1), "temperature: `temperature` is not supported"),
    "top_p": (with_fields(top_p=1), "top_p: `top_p` is not supported"),
    "top_k": (with_fields(top_k=1), "top_k: `top_k` is not supported"),
    "an unknown kind of thinking": (with_fields(thinking={"type": "deep"}), "thinking: Input tag 'deep'"),
    "an unknown field of thinking": (
        with_fields(thinking={"type": "disabled", "budget_tokens": 2000}),
        "thinking.disabled.budget_tokens: Extra inputs",
    ),
    "a budget of thinking below 1024": (
        with_fields(thinking={"type": "enabled", "budget_tokens": 1000}),
        "budget_tokens: Input should be greater than or equal to 1024",
    ),
    "a budget of thinking above max_tokens": (
        with_fields(thinking={"type": "enabled", "budget_tokens": 2048}),
        "`max_tokens` must be greater than `thinking.budget_tokens`",
    ),
    "an unknown choice of tools": (with_fields(tool_choice={"type": "some"}), "tool_choice: Input tag 'some'"),
    "a choice as a string": (with_fields(tool_choice="auto"), "tool_choice: Input tag"),
    "an unknown field of a choice": (
        with_fields(tool_choice={"type": "none", "disable_parallel_tool_use": True}),
        "tool_choice.none.disable_parallel_tool_use: Extra inputs",
    ),
    "a choice without tools": (
        lambda body: body.update(tool_choice={"type": "auto"}, tools=[]),
        "tool_choice may only be specified while providing tools",
    ),
    "the choice of a tool that is not there": (
        with_fields(tool_choice={"type": "tool", "name": "sub"}),
        "Tool 'sub' not found",
    ),
    "a forced tool while thinking": (
        with_fields(tool_choice={"type": "any"}, thinking={"type": "adaptive"}),
        "Thinking may not be enabled when tool_choice forces tool use",
    ),
    "an unknown effort": (with_fields(output_config={"effort": "none"}), "output_config.effort"),
    "an unknown format": (with_fields(output_config={"format": {"type": "json_object"}}), "output_config.format"),
    "an unknown field of the output": (with_fields(output_config={"colour": "red"}), "output_config.colour"),
    "a bad name of a tool": (with_tool(name="add up"), "tools.0.custom.name: String should match pattern"),
    "too long a name of a tool": (with_tool(name="a" * 129), "tools.0.custom.name: String should match pattern"),
    "two tools of one name": (lambda body: body["tools"].append(body["tools"][0]), "Tool names must be unique"),
    "an unknown field of a tool": (with_tool(parameters={}), "tools.0.custom.parameters: Extra inputs"),
    "a schema that is not of an object": (
        with_tool(input_schema={"type": "array"}),
        "input_schema.type: Input should be 'object'",
    ),
    "a schema without a type": (with_tool(input_schema={}), "input_schema.type: Input should be 'object'"),
    "a schema with alternatives": (
        with_tool(input_schema={"type": "object", "oneOf": [{}]}),
        "tools.0.custom.input_schema: input_schema does not support oneOf, allOf, or anyOf at the top level",
    ),
    "a property that is no plain word": (
        with_tool(input_schema={"type": "object", "properties": {"$top": {}}}),
        "tools.0.custom.input_schema.properties: Property keys should match pattern",
    ),
    "a schema of an earlier draft": (
        with_tool(input_schema={"type": "object", "properties": {"a": {"minimum": 1, "exclusiveMinimum": True}}}),
        "tools.0.custom.input_schema: JSON schema is invalid. It must match JSON Schema draft 2020-12",
    ),
    "a description that is not text": (with_tool(description=None), "description: Input should be a valid string"),
    "a picture in the system prompt": (with_fields(system=[image()]), "system.0.type: Input should be 'text'"),
    "an empty system prompt": (with_fields(system=""), "text content blocks must be non-empty"),
    "another role": (with_messages({"role": "tool", "content": "3"}), "messages.0.role: Input should be 'user' or 'assistant'"),
    "a system message": (with_messages(user(text()), {"role": "system", "content": "x"}), "messages.1.role: Input should be"),
    "an unknown field of a message": (with_messages({**user(text()), "name": "Bo"}), "messages.0.name: Extra inputs"),
    "content that is no list": (
        with_messages({"role": "user", "content": {}}),
        "messages.0.content: Input should be a valid list",
    ),
    "an empty text for a message": (with_messages({"role": "user", "content": ""}), "must have non-empty content"),
    "no blocks in a message": (with_messages(user()), "must have non-empty content"),
    "an empty text": (with_first(text("")), "text content blocks must be non-empty"),
    "a text of spaces": (with_first(text(" \n")), "text content blocks must contain non-whitespace text"),
    "a marked empty text": (with_first(text("", cache_control=MARK)), "cache_control cannot be set for empty text blocks"),
    "an unknown block": (with_first({"type": "video"}), "Input tag 'video' found using 'type' does not match"),
    "a block that is not an object": (with_first("Hi"), "Input tag 'None' found using 'type' does not match"),
    "an unknown field of a block": (with_first(text(colour="red")), "messages.0.content.0.text.colour: Extra inputs"),
    "a text that is a number": (with_first(text(7)), "messages.0.content.0.text.text: Input should be a valid string"),
    "a text without text": (with_first({"type": "text"}), "messages.0.content.0.text.text: Field required"),
    "a call of the person": (with_first(call()), "Input tag 'tool_use'"),
    "a result of the assistant": (with_messages(user(text()), assistant(result()), user(text())), "Input tag 'tool_result'"),
    "a picture of the assistant": (with_messages(user(text()), assistant(image()), user(text())), "Input tag 'image'"),
    "a first message of the assistant": (with_messages(assistant(text()), user(text())), "first message must use the"),
    "a last message of the assistant": (
        with_messages(user(text()), assistant(text())),
        "does not support assistant message prefill",
    ),
    "a call without a result": (
        with_results(result("t1")),
        "messages.2: `tool_use` ids were found without `tool_result` blocks immediately after: t2",
    ),
    "no results at all": (
        with_results(text()),
        "`tool_use` ids were found without `tool_result` blocks immediately after: t1, t2",
    ),
    "calls at the end": (with_messages(user(text()), assistant(call())), "`tool_use` ids were found without"),
    "a result one turn too late": (
        with_messages(user(text()), assistant(call()), user(text()), assistant(text()), user(result())),
        "immediately after: t1",
    ),
    "a result without a call": (with_first(result("t9")), "unexpected `tool_use_id` found in `tool_result` blocks: t9"),
    "a result of an older call": (
        with_messages(user(text()), assistant(call()), user(result()), assistant(text()), user(result())),
        "messages.4.content.0: unexpected `tool_use_id`",
    ),
    "two results of one call": (
        with_results(result("t1"), result("t2"), result("t1")),
        "each tool_use must have a single result",
    ),
    "a text before the results": (with_results(text(), result("t1"), result("t2")), "`tool_use` ids were found without"),
    "a text between the results": (with_results(result("t1"), text(), result("t2")), "immediately after: t2"),
    "an extra result after a text": (
        with_results(result("t1"), result("t2"), text(), result("t1")),
        "`tool_result` blocks must come before all other content",
    ),
    "two calls of one id": (with_calls(call("t1"), call("t1")), "`tool_use` ids must be unique"),
    "an id that was there before": (
        with_messages(user(text()), assistant(call()), user(result()), assistant(call()), user(result())),
        "`tool_use` ids must be unique",
    ),
    "a bad id": (with_calls(call("t 1")), "tool_use.id: String should match pattern"),
    "an empty id": (with_calls(call("")), "tool_use.id: String should match pattern"),
    "a bad name of a call": (with_calls(call(name="a b")), "tool_use.name: String should match pattern"),
    "arguments that are no object": (with_calls(call(input=[1])), "tool_use.input: Input should be a valid dictionary"),
    "arguments as text": (with_calls(call(input="{}")), "tool_use.input: Input should be a valid dictionary"),
    "an unknown field of a result": (with_results(result("t1", name="add"), result("t2")), "tool_result.name: Extra inputs"),
    "an empty text in a result": (with_results(result("t1", content=[text("")]), result("t2")), "must be non-empty"),
    "an empty error": (
        with_results(result("t1", content="", is_error=True), result("t2")),
        "content cannot be empty if `is_error` is true",
    ),
    "an empty list of an error": (
        with_results(result("t1", content=[], is_error=True), result("t2")),
        "content cannot be empty",
    ),
    "a picture in an error": (
        with_results(result("t1", content=[text(), image()], is_error=True), result("t2")),
        "all content must be type `text` if `is_error` is true",
    ),
    "a call in a result": (
        with_results(result("t1", content=[call()]), result("t2")),
        "tool_result.content.0: Input tag 'tool_use'",
    ),
    "a result that is a number": (
        with_results(result("t1", content=3), result("t2")),
        "tool_result.content: Input should be a valid list",
    ),
    "a failure that is no yes or no": (
        with_results(result("t1", is_error="no"), result("t2")),
        "is_error: Input should be a valid boolean",
    ),
    "a picture of another kind": (with_first(image(media_type="image/svg+xml")), "media_type: Input should be 'image/jpeg'"),
    "a picture that is not base64": (with_first(image(data="no!")), "data: invalid base64 data"),
    "a picture of no bytes": (with_first(image(data="")), "data: invalid base64 data"),
    "an unknown field of a picture": (with_first(image(detail="low")), "source.base64.detail: Extra inputs"),
    "a picture from nowhere": (with_first(image(type="disk")), "image.source: Input tag"),
    "thinking without signature": (
        with_messages(user(text()), assistant({"type": "thinking", "thinking": "hm"}), user(text())),
        "thinking.signature: Field required",
    ),
    "thinking with a signature of somebody else": (
        with_messages(user(text()), assistant({"type": "thinking", "thinking": "hm", "signature": "c2lnbmVk"}), user(text())),
        "Invalid `signature` in `thinking` block",
    ),
    "hidden thinking that was never sent": (
        with_messages(user(text()), assistant({"type": "redacted_thinking", "data": "eA=="}), user(text())),
        "Invalid `data` in `redacted_thinking` block",
    ),
    "five markers": (
        with_first(*(text(cache_control=MARK) for _ in range(4))),
        "A maximum of 4 blocks with cache_control may be provided. Found 5",
    ),
    "five markers, one for all": (
        lambda body: (with_first(*(text(cache_control=MARK) for _ in range(3)))(body), body.update(cache_control=MARK)),
        "Found 5",
    ),
    "five markers, one in a result": (
        lambda body: (
            with_results(result("t1", content=[text(cache_control=MARK)]), result("t2", cache_control=MARK))(body),
            body.update(cache_control=MARK),
            body["tools"][0].update(cache_control=MARK),
        ),
        "Found 5",
    ),
    "another marker": (with_first(text(cache_control={"type": "forever"})), "cache_control: Input should be"),
    "a marker for another time": (with_first(text(cache_control={**MARK, "ttl": "2h"})), "cache_control: Input should be"),
    "a marker of an hour after one of minutes": (
        with_first(text(cache_control={**MARK, "ttl": "1h"})),
        "must not come after a ttl='5m'",
    ),
}


def test_messages_wire_refuses_invalid_requests(subtests: pytest.Subtests) -> None:
    for name, (change, wanted) in REFUSED.items():
        with subtests.test(name):
            found = said(change)
            assert [problem for problem in found if wanted in problem], found


ACCEPTED = {
    "the usual": lambda body: None,
    "texts as strings": with_fields(system="Be good", messages=[{"role": "user", "content": "Hi"}]),
    "turns of several messages": with_messages(user(text()), user(text()), assistant(call()), user(result()), user(text())),
    "calls of one turn in two messages": with_messages(
        user(text()), assistant(call("a")), assistant(call("b")), user(result("b"), result("a"))
    ),
    "an empty result": with_results(result("t1", content=""), {"type": "tool_result", "tool_use_id": "t2"}),
    "pictures in a message and in a result": with_messages(
        user(text(), image()), assistant(call()), user(result(content=[image()]))
    ),
    "nulls where they are allowed": with_first(text(citations=None, cache_control=None)),
    "all that can be set": with_fields(
        thinking={"type": "adaptive", "display": "summarized"},
        tool_choice={"type": "auto", "disable_parallel_tool_use": True},
        output_config={"effort": "max", "format": {"type": "json_schema", "schema": SCHEMA}},
        stop_sequences=["END"],
        metadata={"user_id": "u"},
    ),
    "a forced tool": with_fields(tool_choice={"type": "tool", "name": "add"}),
    "four markers": with_first(*(text(cache_control={**MARK, "ttl": "5m"}) for _ in range(3))),
    "a tool of the provider": lambda body: body["tools"].append({"type": "web_search_20260318", "name": "web_search"}),
}


def test_messages_wire_accepts_valid_requests(subtests: pytest.Subtests) -> None:
    for name, change in ACCEPTED.items():
        with subtests.test(name):
            assert said(change) == []


def test_api_version_header_is_required() -> None:
    assert said(lambda body: None, version=None) == ["anthropic-version: header is required"]


def test_older_api_version_accepts_sampling_options(subtests: pytest.Subtests) -> None:
    for name in ["temperature", "top_p", "top_k"]:
        with subtests.test(name):
            assert said(with_fields(**{name: 1}), version="2023-06-01") == []


def goes_on(line: Any, change: Callable[[dict[str, Any]], Any] = lambda message: None, *after: dict[str, Any]) -> int:
    """Return the status of a request that continues a reply to this line, after a change to it."""
    with LoopbackServer(lambda _: line) as server:
        body = {"model": "m", "max_tokens": 9, "messages": [user(text())]}
        content = post(server, "messages", body).body["content"]
        message = {"role": "assistant", "content": content}
        change(message)
        return post(server, "messages", {**body, "messages": [user(text()), message, *after]}).status


def test_returned_thinking_must_be_unchanged() -> None:
    def touched(message: dict[str, Any]) -> None:
        message["content"][0]["thinking"] += "."

    def of_another(message: dict[str, Any]) -> None:
        first, second = message["content"][:2]
        first["signature"], second["signature"] = second["signature"], first["signature"]

    line = [Thinking("hm"), Thinking("well"), "text"]
    assert goes_on(line, lambda message: None, user(text())) == 200
    assert goes_on(line, touched, user(text())) == 400
    assert goes_on(line, of_another, user(text())) == 400


def test_thinking_from_another_server_is_accepted() -> None:
    body = {"model": "m", "max_tokens": 9, "messages": [user(text())]}
    with LoopbackServer([[Thinking("hm"), "text"]]) as first, LoopbackServer(["more"]) as second:
        content = post(first, "messages", body).body["content"]
        assert post(second, "messages", {**body, "messages": [user(text()), assistant(*content), user(text())]}).status == 200


def test_returned_hidden_thinking_must_be_unchanged() -> None:
    line = [Opaque({"type": "redacted_thinking", "data": "c2VjcmV0"}), "text"]
    assert goes_on(line, lambda message: None, user(text())) == 200
    assert goes_on(line, lambda message: message["content"][0].update(data="b3RoZXI="), user(text())) == 400


def test_only_unchanged_server_tool_blocks_are_accepted() -> None:
    line = [Opaque({"type": "server_tool_use", "id": "srv_1", "name": "web_search", "input": {"q": "x"}}), "text"]
    assert goes_on(line, lambda message: None, user(text())) == 200
    assert goes_on(line, lambda message: message["content"][0].update(name="other"), user(text())) == 400


def test_unchanged_paused_reply_may_end_a_request() -> None:
    paused = Answer(
        [Opaque({"type": "server_tool_use", "id": "srv_1", "name": "web_search", "input": {}}), "so"], stop_reason="pause_turn"
    )
    assert goes_on(paused) == 200
    assert goes_on(paused, lambda message: message["content"][1].update(text="so far")) == 400
    assert goes_on(paused, lambda message: message["content"][1].update(cache_control=MARK)) == 200
    assert goes_on(Answer(["so"])) == 400


def test_assistant_content_after_an_empty_pause_cannot_be_last() -> None:
    body: dict[str, Any] = {"model": "m", "max_tokens": 9, "messages": [user(text())]}
    with LoopbackServer(lambda _: Answer([], stop_reason="pause_turn")) as server:
        post(server, "messages", body)
        assert post(server, "messages", {**body, "messages": [user(text()), assistant(text())]}).status == 400


def test_two_consecutive_pauses_can_be_continued() -> None:
    with LoopbackServer(lambda _: Answer(["so"], stop_reason="pause_turn")) as server:
        body: dict[str, Any] = {"model": "m", "max_tokens": 9, "messages": [user(text())]}
        for _ in range(3):
            answered = post(server, "messages", body)
            body["messages"].append(assistant(*answered.body["content"]))
    assert [request.answered for request in server.requests] == [200, 200, 200]


def test_returned_unchanged_calls_are_accepted() -> None:
    def results(message: dict[str, Any]) -> dict[str, Any]:
        return user(*(result(block["id"]) for block in message["content"]))

    with LoopbackServer(lambda _: [ToolCall("add", {"a": 1}), ToolCall("add", {"a": 1})]) as server:
        body: dict[str, Any] = {"model": "m", "max_tokens": 9, "messages": [user(text())]}
        for _ in range(3):
            message = assistant(*post(server, "messages", body).body["content"])
            body["messages"] += [message, results(message)]
    assert [request.problems for request in server.requests] == [(), (), ()]
