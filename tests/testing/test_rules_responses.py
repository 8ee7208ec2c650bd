"""A case for every refusal of the Responses API, and some accepted requests."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
from raw_http import PNG, SCHEMA, post

from agentnb import ToolCall
from agentnb.core.messages import Thinking
from agentnb.testing import Answer, LoopbackServer
from agentnb.testing.memory import Memory
from agentnb.testing.requests.rules_responses import problems

URL = f"data:image/png;base64,{PNG}"
PICTURE = {"type": "input_image", "image_url": URL, "detail": "auto"}


def user(content: Any = "Hi") -> dict[str, Any]:
    return {"role": "user", "content": content}


def message(*parts: Any) -> dict[str, Any]:
    return {"type": "message", "role": "assistant", "content": list(parts)}


def said_text(text: str = "x", **more: Any) -> dict[str, Any]:
    return {"type": "output_text", "text": text, **more}


def call(call_id: str = "c1", **more: Any) -> dict[str, Any]:
    return {"type": "function_call", "call_id": call_id, "name": "add", "arguments": "{}", **more}


def output(call_id: str = "c1", **more: Any) -> dict[str, Any]:
    return {"type": "function_call_output", "call_id": call_id, "output": "3", **more}


def tool(**more: Any) -> dict[str, Any]:
    return {"type": "function", "name": "add", "description": "adds", "parameters": SCHEMA, "strict": False, **more}


def good() -> dict[str, Any]:
    return {
        "model": "m",
        "store": False,
        "stream": True,
        "instructions": "Be good",
        "include": ["reasoning.encrypted_content"],
        "tools": [tool()],
        "input": [
            user([{"type": "input_text", "text": "Hi"}, PICTURE]),
            message(said_text("I add", annotations=[])),
            call("c1", id="fc_1", status="completed"),
            call("c2"),
            output("c2"),
            output("c1", output=[PICTURE]),
            user(),
        ],
    }


def said(change: Callable[[dict[str, Any]], Any]) -> list[str]:
    body = copy.deepcopy(good())
    change(body)
    return problems(body, Memory())


def fields(**more: Any) -> Callable[[dict[str, Any]], Any]:
    return lambda body: body.update(more)


def items(*given: Any) -> Callable[[dict[str, Any]], Any]:
    return lambda body: body.update(input=list(given))


REFUSED = {
    "no model": (lambda body: body.pop("model"), "Missing required parameter: 'model'"),
    "an empty name of a model": (fields(model=""), "you must provide a model parameter"),
    "no input": (lambda body: body.pop("input"), "Missing required parameter: 'input'"),
    "an empty input": (items(), "Invalid 'input'"),
    "an empty text as input": (fields(input=""), "Invalid 'input'"),
    "an unknown field": (fields(messages=[]), "Unknown parameter: 'messages'"),
    "max_tokens": (fields(max_tokens=9), "Unknown parameter: 'max_tokens'"),
    "too few tokens": (fields(max_output_tokens=15), "Invalid 'max_output_tokens'"),
    "a response before": (fields(previous_response_id="resp_1"), "Previous response with id 'resp_1' not found"),
    "a kept conversation": (fields(conversation="conv_1"), "not found"),
    "a word as store": (fields(store="no"), "Invalid type for 'store'"),
    "a tool of no type": (fields(tools=[{"name": "add"}]), "Missing required parameter: 'tools[0].type'"),
    "a tool as chat has it": (
        fields(tools=[{"type": "function", "function": {"name": "add"}}]),
        "Unknown parameter: 'tools[0].function'",
    ),
    "a bad name of a tool": (fields(tools=[tool(name="a b")]), "Invalid 'tools[0].name'"),
    "a schema that is not of an object": (fields(tools=[tool(parameters={})]), "Invalid schema for function 'add'"),
    "a schema with alternatives": (
        fields(tools=[tool(parameters={"type": "object", "not": {}})]),
        "Invalid schema for function 'add': schema must have type 'object' and not have 'oneOf'/'anyOf'/'allOf'/'enum'/'not'",
    ),
    "two tools of one name": (fields(tools=[tool(), tool()]), "function names must be unique"),
    "a choice without tools": (
        lambda body: body.update(tools=[], tool_choice="auto"),
        "only allowed when 'tools' are specified",
    ),
    "an unknown choice": (fields(tool_choice="any"), "Invalid value: 'any'"),
    "the choice of a tool that is not there": (
        fields(tool_choice={"type": "function", "name": "sub"}),
        "Tool choice 'sub' not found",
    ),
    "an unknown item": (items({"type": "item_reference", "id": "msg_1"}), "Invalid value: 'item_reference'"),
    "an item that is not an object": (items("Hi"), "Invalid value: 'None'"),
    "a call without arguments": (
        items(user(), {"type": "function_call", "call_id": "c1", "name": "add"}),
        "'input[1].arguments'",
    ),
    "an unknown field of an item": (items({**user(), "name": "Bo"}), "Unknown parameter: 'input[0].name'"),
    "the id of another kind": (items(user(), call(id="call_1"), output()), "Expected an ID that begins with 'fc'"),
    "too long an id of a call": (items(user(), call("c" * 65), output("c" * 65)), "maximum length 64"),
    "an unknown role": (items({"role": "tool", "content": "x"}), "Invalid value: 'tool'"),
    "an empty message": (items(user("")), "Invalid 'input[0].content': empty string"),
    "no parts": (items(user([])), "Invalid 'input[0].content'"),
    "an empty part": (items(user([{"type": "input_text", "text": ""}])), "empty string"),
    "an empty part of an answer": (items(user(), message(said_text(""))), "empty string"),
    "a part as chat has it": (items(user([{"type": "text", "text": "x"}])), "Invalid value: 'text'"),
    "a part of an answer from the person": (items(user([said_text()])), "Invalid value: 'output_text'"),
    "a part of the person in an answer": (
        items(user(), message({"type": "input_text", "text": "x"})),
        "Invalid value: 'input_text'",
    ),
    "an unknown field of a part": (
        items(user([{"type": "input_text", "text": "x", "id": 1}])),
        "Unknown parameter: 'input[0].content[0].id'",
    ),
    "an invalid picture": (
        items(user([{"type": "input_image", "image_url": "data:text/plain;base64,eA=="}])),
        "expected a valid URL",
    ),
    "a bad name of a call": (items(user(), call(name="a b"), output()), "Invalid 'input[1].name'"),
    "arguments as an object": (items(user(), call(arguments={}), output()), "expected a string with a JSON object"),
    "arguments that are no object": (items(user(), call(arguments="1"), output()), "expected a string with a JSON object"),
    "a result that is an object": (items(user(), call(), output(output={"a": 1})), "Invalid 'input[2].output'"),
    "a result without a call": (items(user(), output("c9")), "No tool call found for function call output with call_id c9"),
    "a result before its call": (
        items(user(), output(), call(), output()),
        "No tool call found for function call output with call_id c1",
    ),
    "a call without a result": (
        items(user(), call(), call("c2"), output("c2"), user()),
        "No tool output found for function call c1",
    ),
    "calls at the end": (items(user(), call()), "No tool output found for function call c1"),
    "a result too late": (items(user(), call(), user(), output()), "No tool output found for function call c1"),
    "two results of one call": (
        items(user(), call(), output(), output()),
        "Duplicate function call output found for call_id c1",
    ),
    "two calls of one id": (items(user(), call(), output(), call(), output()), "Duplicate item found with call_id c1"),
    "one item twice": (
        items(user(), {**message(said_text()), "id": "msg_1"}, {**message(said_text()), "id": "msg_1"}),
        "Duplicate item found with id msg_1",
    ),
    "thoughts without what is sealed": (
        items(user(), {"type": "reasoning", "id": "rs_1", "summary": []}),
        "'input[1].encrypted_content'",
    ),
    "thoughts of somebody else": (
        items(user(), {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "eA=="}, message(said_text())),
        "The encrypted content for item rs_1 could not be verified",
    ),
}


def test_responses_wire_refuses_invalid_requests(subtests: pytest.Subtests) -> None:
    for name, (change, wanted) in REFUSED.items():
        with subtests.test(name):
            found = said(change)
            assert [problem for problem in found if wanted in problem], found


ACCEPTED = {
    "the usual": lambda body: None,
    "a text as input": fields(input="Hi"),
    "storing": fields(store=True),
    "nothing about storing": lambda body: body.pop("store"),
    "tools of the provider": fields(tools=[{"type": "web_search"}, {"type": "mcp", "server_label": "x"}, {"type": "custom"}]),
    "a choice of a tool of the provider": fields(tools=[{"type": "web_search"}], tool_choice={"type": "web_search"}),
    "an editing of the context": fields(context_management=[{"type": "compaction"}]),
    "an answer as a plain text": items(user(), {"role": "assistant", "content": "x"}, user()),
    "an empty result": items(user(), call(), output(output="")),
    "a refusal": items(user(), message({"type": "refusal", "refusal": "no"}), user()),
    "a text between calls and results": items(user(), call(), message(said_text()), output()),
}


def test_responses_wire_accepts_valid_requests(subtests: pytest.Subtests) -> None:
    for name, change in ACCEPTED.items():
        with subtests.test(name):
            assert said(change) == []


def goes_on(line: Any, change: Callable[[list[dict[str, Any]]], Any] = lambda sent: None) -> str:
    """Return the problems of a request that continues a reply to this line, after a change to it."""
    with LoopbackServer(lambda _: line) as server:
        body = {"model": "m", "store": False, "input": [user()]}
        sent = post(server, "responses", body).body["output"]
        change(sent)
        results = [output(item["call_id"]) for item in sent if item["type"] == "function_call"]
        answered = post(server, "responses", {**body, "input": [user(), *sent, *results, user()]})
        return "" if answered.status == 200 else answered.body["error"]["message"]


THOUGHT = [Thinking("hm"), ToolCall("add"), ToolCall("add")]


def test_returned_reasoning_must_be_unchanged(subtests: pytest.Subtests) -> None:
    cases = [THOUGHT, [Thinking("hm"), "text"], [Thinking("hm"), "text", ToolCall("add")], [Thinking(""), "text"]]
    for line in cases:
        with subtests.test(line=line):
            assert goes_on(line) == ""


def test_changed_reasoning_is_refused() -> None:
    assert "was changed since it was sent" in goes_on(THOUGHT, lambda sent: sent[0]["summary"][0].update(text="hmm"))
    assert "could not be verified" in goes_on(THOUGHT, lambda sent: sent[0].update(id="rs_else"))
    assert "could not be verified" in goes_on(
        THOUGHT, lambda sent: sent[0].update(encrypted_content=sent[0]["encrypted_content"][:-8])
    )


def test_reasoning_must_be_returned_before_its_items() -> None:
    missing = "was provided without its required following item"

    def without_id(sent: list[dict[str, Any]]) -> None:
        del sent[1]["id"]

    assert goes_on(THOUGHT, without_id) == ""
    assert missing in goes_on(THOUGHT, lambda sent: sent.insert(1, message(said_text())))
    assert missing in goes_on(THOUGHT, lambda sent: sent.pop(1))
    assert missing in goes_on(Answer([Thinking("hm")], stop_reason="max_tokens"))


def test_items_with_an_id_need_their_preceding_reasoning() -> None:
    def alone(sent: list[dict[str, Any]]) -> None:
        sent.pop(0)

    def alone_without_id(sent: list[dict[str, Any]]) -> None:
        sent.pop(0)
        del sent[0]["id"]

    assert "was provided without its required 'reasoning' item: 'rs_" in goes_on(THOUGHT, alone)
    assert goes_on(THOUGHT, alone_without_id) == ""
