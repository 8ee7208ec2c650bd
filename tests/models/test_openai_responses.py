"""``openai-responses:`` as two pure functions: request to wire, stream to deltas and reply."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest
from wire_by_hand import (
    ADD,
    NO_COUNTS,
    NO_DATA,
    NOW,
    ODD,
    PNG,
    RESPONSES,
    TIFF,
    URL,
    assistant,
    call,
    joined,
    read,
    reply,
    requests_of_a_run,
    result,
    results,
    sent,
    user,
)

from agentnb.core.log.events import TextDelta, ThinkingDelta
from agentnb.core.messages import Message, Text, Thinking, ToolCall, ToolResult
from agentnb.core.usage import Usage
from agentnb.models.provider import CutOff, Refused
from agentnb.models.providers.openai_responses import as_stream
from agentnb.models.providers.serialization import replacement_text, words_for

REASONING = {
    "type": "reasoning",
    "id": "rs_1",
    "summary": [{"type": "summary_text", "text": "hm"}],
    "encrypted_content": "gA==",
}
SEARCH = {"type": "web_search_call", "id": "ws_1", "status": "completed", "action": {"type": "search"}}


def items(*given: Message, **settings: Any) -> list[Any]:
    made: list[Any] = sent(RESPONSES, *given, **settings)["input"]
    return made


def message(*texts: str, kind: str = "output_text") -> dict[str, Any]:
    field = "refusal" if kind == "refusal" else "text"
    content = [{"type": kind, field: text, "annotations": []} for text in texts]
    return {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed", "content": content}


def function(arguments: str, call_id: str = "c1", name: str = "add") -> dict[str, Any]:
    return {"type": "function_call", "id": "fc_1", "call_id": call_id, "name": name, "arguments": arguments}


def response(*output: Any, status: str = "completed", **fields: Any) -> dict[str, Any]:
    return {"id": "resp_1", "model": "gpt-x", "status": status, "output": list(output), **fields}


def end(*output: Any, status: str = "completed", **fields: Any) -> dict[str, Any]:
    return {"type": f"response.{status}", "response": response(*output, status=status, **fields)}


# The request


def test_minimal_request_asks_the_provider_to_store_nothing() -> None:
    assert sent(RESPONSES, user("Hi"), stream=False) == {
        "model": "m",
        "store": False,
        "include": ["reasoning.encrypted_content"],
        "input": [{"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Hi"}]}],
    }


def test_system_and_tools_are_sent() -> None:
    body = sent(RESPONSES, system="Be.", tools=(ADD, NOW))
    assert (body["instructions"], body["stream"]) == ("Be.", True)
    first = {"type": "function", "name": "add", "description": "Adds.", "parameters": ADD.input_schema, "strict": False}
    assert body["tools"][0] == first
    assert body["tools"][1]["parameters"] == {"type": "object", "properties": {}}


def test_calls_and_results_are_items_followed_by_the_text() -> None:
    round_trip = (assistant("So.", call(1, a=1), call(2)), results("Said", result(1, "3"), result(2, "x", "y"), "more"))
    assert items(user("Go"), *round_trip)[1:] == [
        {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "So."}]},
        {"type": "function_call", "call_id": "call_1", "name": "add", "arguments": '{"a":1}'},
        {"type": "function_call", "call_id": "call_2", "name": "add", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "call_1", "output": "3"},
        {"type": "function_call_output", "call_id": "call_2", "output": "x\ny"},
        {
            **{"type": "message", "role": "user"},
            "content": [{"type": "input_text", "text": "Said"}, {"type": "input_text", "text": "more"}],
        },
    ]


def test_ephemeral_text_comes_last() -> None:
    for request in requests_of_a_run():
        *others, last = items(*request.messages)
        assert last["role"] == "user" and "<system-reminder>" in last["content"][-1]["text"]
        assert not any("<system-reminder>" in str(other) for other in [*others, *last["content"][:-1]])


def test_reasoning_is_sent_back_unchanged_before_its_items() -> None:
    came = {**REASONING, "status": None, "content": None}
    for item in (came, {**came, "summary": [], "status": "completed"}):
        said = reply(RESPONSES, end(item, message("So."), function("{}"))).message
        echoed = items(user("Go"), said, results(result(1)))
        assert echoed[1] == {key: value for key, value in item.items() if value is not None and key != "status"}
        assert [one["type"] for one in echoed[2:4]] == ["message", "function_call"]


def test_reasoning_without_encrypted_content_is_not_sent() -> None:
    said = reply(RESPONSES, end({**REASONING, "encrypted_content": None}, message("So."))).message
    assert said.parts[0] == Thinking("hm")
    assert [item["type"] for item in items(user("Go"), said, user("On"))] == ["message"] * 3


def test_trailing_reasoning_is_not_sent() -> None:
    """The API refuses reasoning without its following item; replies that were cut off end like this."""
    thought = Thinking("hm", {"openai-responses": REASONING})
    assert len(items(user("Go"), assistant(thought), user("On"))) == 2
    assert items(user("Go"), assistant(thought, "So", thought, " "), user("On"))[1:3] == [
        REASONING,
        {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "So"}]},
    ]


def test_unknown_items_are_sent_back_unchanged() -> None:
    for item in (SEARCH, {"type": "mcp_call", "id": "mcp_1", "output": None, "name": "x"}, {"type": "new", "content": "text"}):
        said = reply(RESPONSES, end(item, message("So."))).message
        assert items(user("Go"), said)[1] == {key: value for key, value in item.items() if value is not None}


def test_thinking_and_blocks_of_other_providers_are_not_sent(subtests: pytest.Subtests) -> None:
    cases = [None, {"openai": "reasoning"}, {"anthropic": {"type": "thinking", "signature": "s"}}]
    for metadata in cases:
        with subtests.test(metadata=metadata):
            other = ToolCall(
                "web.search", {"q": "x"}, "functions.web:0", {"anthropic": {"caller": 1}, "compatible": {"extra": 1}}
            )
            answered = results(ToolResult("functions.web:0", "web.search"))
            made = items(user("Go"), assistant(Thinking("hm", metadata), Text("", metadata), other), answered)
            assert [item["type"] for item in made] == ["message", "function_call", "function_call_output"]
            assert set(made[1]) == {"type", "call_id", "name", "arguments"} and made[1]["name"] == "web_search"
            assert made[1]["call_id"] == made[2]["call_id"] != "functions.web:0"


def test_non_object_arguments_are_sent_as_an_object(subtests: pytest.Subtests) -> None:
    cases = [("{", '{"arguments":"{"}'), ([1], '{"arguments":[1]}'), ({}, "{}")]
    for given, arguments in cases:
        with subtests.test(given=given):
            assert items(user("Go"), assistant(ToolCall("add", given, "1")))[1]["arguments"] == arguments


def test_pictures_are_sent_in_prompts_and_results() -> None:
    picture = {"type": "input_image", "image_url": URL, "detail": "auto"}
    conversation = (user("See", PNG), assistant(call(1), call(2)), results(result(1, "plot", PNG), result(2, "x"), PNG))
    made = items(*conversation)
    assert made[0]["content"] == [{"type": "input_text", "text": "See"}, picture]
    assert made[3]["output"] == [{"type": "input_text", "text": "plot"}, picture]
    assert made[4]["output"] == "x" and made[5]["content"] == [picture]
    blind = items(*conversation, images=False)
    assert blind[0]["content"][1] == {"type": "input_text", "text": words_for(PNG)}
    assert blind[3]["output"] == f"plot\n{words_for(PNG)}"


def test_empty_result_is_sent_as_no_value() -> None:
    for images in (None, False):
        made = items(user("Go"), assistant(call(1)), results(result(1, error=True)), images=images)
        assert made[2] == {"type": "function_call_output", "call_id": "call_1", "output": "(no value)"}


def test_blank_text_is_not_sent() -> None:
    assert len(items(user("Go", " "), assistant("", " "), user("On"))) == 2
    assert len(items(user("Go", " "))[0]["content"]) == 1


def test_unusual_text_is_sent_unchanged() -> None:
    body = sent(RESPONSES, user(ODD), assistant(ODD), results(result(1, ODD)), system=ODD)
    assert body["instructions"] == ODD
    assert [item["content"][0]["text"] for item in body["input"][:2]] == [ODD, ODD] and body["input"][2]["output"] == ODD


SETTINGS = [
    ({"max_tokens": 7}, {"max_output_tokens": 7}),
    ({"max_tokens": 7, "settings": {"max_tokens": 8}}, {"max_output_tokens": 8}),
    ({"temperature": 0.0}, {"temperature": 0.0}),
    ({"effort": "low"}, {"reasoning": {"effort": "low"}}),
    ({"effort": "low", "thinking": "adaptive"}, {"reasoning": {"effort": "low", "summary": "auto"}}),
    ({"thinking": "adaptive"}, {"reasoning": {"summary": "auto"}}),
    (
        {"output_schema": {"a": 1}},
        {"text": {"format": {"type": "json_schema", "name": "answer", "schema": {"a": 1}}}},
    ),
    ({"tools": (ADD,), "settings": {"tool_choice": "auto"}}, {"tool_choice": "auto"}),
    ({"tools": (ADD,), "settings": {"tool_choice": "none"}}, {"tool_choice": "none"}),
    ({"tools": (ADD,), "settings": {"tool_choice": "required"}}, {"tool_choice": "required"}),
    ({"tools": (ADD,), "settings": {"tool_choice": "add"}}, {"tool_choice": {"type": "function", "name": "add"}}),
    ({"tools": (ADD,), "parallel": False}, {"parallel_tool_calls": False}),
    ({"settings": {"tool_choice": "auto"}, "parallel": True, "echo": True, "cache": "1h"}, {}),
]


def test_settings_are_sent_under_the_api_names(subtests: pytest.Subtests) -> None:
    for given, fields in SETTINGS:
        with subtests.test(given=given):
            usual = sent(RESPONSES, stream=False, tools=given.get("tools", ()))
            assert sent(RESPONSES, **{"stream": False, **given}) == usual | fields


def test_reasoning_is_not_requested_from_models_without_it() -> None:
    assert set(sent(RESPONSES, thinking="off", stream=False)) == {"model", "store", "input"}


# The reply


def test_text_thinking_and_calls_are_read_from_a_stream() -> None:
    reasoning = {**REASONING, "summary": [{"type": "summary_text", "text": "h"}, {"type": "summary_text", "text": "m"}]}
    deltas, answer = read(
        RESPONSES,
        [
            {"type": "response.created", "response": response(status="in_progress")},
            {"type": "response.in_progress", "response": response(status="in_progress")},
            {"type": "response.output_item.added", "output_index": 0, "item": {"type": "reasoning", "summary": []}},
            {"type": "response.reasoning_summary_part.added", "output_index": 0, "summary_index": 0, "part": {}},
            {"type": "response.reasoning_summary_text.delta", "summary_index": 0, "delta": "h"},
            {"type": "response.reasoning_summary_text.done", "summary_index": 0, "text": "h"},
            {"type": "response.reasoning_summary_part.added", "output_index": 0, "summary_index": 1, "part": {}},
            {"type": "response.reasoning_summary_text.delta", "summary_index": 1, "delta": "m"},
            {"type": "response.output_item.done", "output_index": 0, "item": reasoning},
            {"type": "response.content_part.added", "part": {"type": "output_text", "text": ""}},
            {"type": "response.output_text.delta", "delta": "So"},
            {"type": "response.output_text.delta", "delta": ""},
            {"type": "response.output_text.annotation.added", "annotation": {}},
            {"type": "response.output_text.delta", "delta": " it is"},
            {"type": "response.function_call_arguments.delta", "output_index": 2, "delta": '{"a"'},
            {"type": "response.function_call_arguments.done", "output_index": 2, "arguments": '{"a":1}'},
            {"type": "response.brand_new", "x": 1},
            {},
            end(reasoning, message("So", " it is"), function('{"a":1}'), usage={"input_tokens": 3, "output_tokens": 5}),
        ],
    )
    assert deltas == [
        *(ThinkingDelta("h"), ThinkingDelta("\n\n"), ThinkingDelta("m")),
        *(TextDelta("So"), TextDelta(" it is")),
    ]
    thought = Thinking("h\n\nm", {"openai-responses": reasoning})
    assert answer.message.parts == (thought, Text("So it is"), ToolCall("add", {"a": 1}, "c1"))
    assert (answer.stop_reason, answer.usage) == ("completed", Usage(input=3, output=5))
    assert answer.metadata == {"id": "resp_1", "model": "gpt-x"}


def test_unencrypted_reasoning_text_is_thinking() -> None:
    item = {"type": "reasoning", "id": "rs", "summary": [], "content": [{"type": "reasoning_text", "text": "hm"}]}
    deltas, answer = read(RESPONSES, [{"type": "response.reasoning_text.delta", "delta": "hm"}, end(item, message("4"))])
    assert deltas == [ThinkingDelta("hm")] and answer.message == assistant(Thinking("hm"), "4")


def test_items_missing_from_the_last_event_come_from_earlier_ones() -> None:
    done = [
        {"type": "response.output_item.done", "output_index": index, "item": item}
        for index, item in ((1, function('{"a":1}')), (0, message("So")))
    ]
    for last in (end(), {"type": "response.completed", "response": {"id": "r", "status": "completed", "output": None}}):
        assert reply(RESPONSES, *done, last).message == assistant("So", ToolCall("add", {"a": 1}, "c1"))


def test_items_without_an_index_keep_their_order() -> None:
    done = [{"type": "response.output_item.done", "item": item} for item in (message("So"), function('{"a":1}'))]
    assert reply(RESPONSES, *done, end()).message == assistant("So", ToolCall("add", {"a": 1}, "c1"))


def test_refusal_becomes_text_and_the_stop_reason() -> None:
    deltas, answer = read(
        RESPONSES, [{"type": "response.refusal.delta", "delta": "I cannot"}, end(message("I cannot", kind="refusal"))]
    )
    assert deltas == [TextDelta("I cannot")] and answer.message == assistant("I cannot")
    assert answer.stop_reason == "refusal"


def test_invalid_json_arguments_are_kept_as_text(subtests: pytest.Subtests) -> None:
    for broken in ['{"a": ', "add(1)"]:
        with subtests.test(broken):
            assert reply(RESPONSES, end(function(broken))).message.calls == (ToolCall("add", broken, "c1"),)


def test_incomplete_call_of_a_truncated_reply_is_named(subtests: pytest.Subtests) -> None:
    for reason, came in product(["max_output_tokens", "content_filter"], ['{"a": ', ""]):
        with subtests.test(reason=reason, came=came):
            output = (message("So"), function('{"a":1}', "c0"), function(came))
            answer = reply(RESPONSES, end(*output, status="incomplete", incomplete_details={"reason": reason}))
            assert answer.message == assistant("So", ToolCall("add", {"a": 1}, "c0"), ToolCall("add", came, "c1"))
            assert answer.stop_reason == reason and answer.metadata["cut_call"] == "add"


def test_complete_calls_of_a_truncated_reply_are_kept() -> None:
    answer = reply(RESPONSES, end(function('{"a":1}'), status="incomplete", incomplete_details={"reason": "max_output_tokens"}))
    assert answer.message.calls == (ToolCall("add", {"a": 1}, "c1"),) and "cut_call" not in answer.metadata


def test_unknown_stop_reason_is_kept_unchanged() -> None:
    assert reply(RESPONSES, *as_stream(response(message("a"), status="cancelled"))).stop_reason == "cancelled"
    assert reply(RESPONSES, end(message("a"), status="incomplete")).stop_reason == "incomplete"


def test_failure_inside_the_stream_is_a_refusal_with_its_message(subtests: pytest.Subtests) -> None:
    cases = [
        (end(status="failed", error={"code": "server_error", "message": "oops"}), "server_error", "oops"),
        *[(end(status="failed", error=None), "", "the reply failed"), ({"type": "response.failed"}, "", "the reply failed")],
        ({"type": "error", "code": "rate_limit_exceeded", "message": "slow"}, "rate_limit_exceeded", "slow"),
        ({"type": "error", "code": None, "message": None}, "", ""),
    ]
    for chunk, name, words in cases:
        with subtests.test(chunk=chunk, name=name, words=words):
            with pytest.raises(Refused) as refused:
                read(RESPONSES, [{"type": "response.output_text.delta", "delta": "So"}, chunk])
            assert refused.value.details[:3] == (None, name, words)


def test_failed_unstreamed_reply_is_a_refusal() -> None:
    with pytest.raises(Refused, match="oops"):
        read(RESPONSES, as_stream(response(status="failed", error={"code": "server_error", "message": "oops"})))


def test_stream_without_an_end_event_is_cut_off(subtests: pytest.Subtests) -> None:
    cases = [[], [{"type": "response.output_text.delta", "delta": "So"}], [{"type": "response.created"}]]
    for chunks in cases:
        with subtests.test(chunks=chunks):
            with pytest.raises(CutOff):
                read(RESPONSES, chunks)


def test_an_empty_reply_has_no_parts() -> None:
    assert reply(RESPONSES, end()).message.parts == reply(RESPONSES, end(message())).message.parts == ()


COUNTS = [
    *[(None, Usage()), ({}, Usage()), ({"input_tokens": 0, "output_tokens": 0}, Usage(input=0, output=0))],
    (
        {
            **{"input_tokens": 10, "output_tokens": 5},
            "input_tokens_details": {"cached_tokens": 7, "cache_write_tokens": 2},
            "output_tokens_details": {"reasoning_tokens": 4},
        },
        Usage(input=10, output=5, cache_read=7, cache_write=2, reasoning=4),
    ),
]


def test_reported_tokens_are_counted_and_missing_ones_unknown(subtests: pytest.Subtests) -> None:
    for said, usage in COUNTS:
        with subtests.test(said=said, usage=usage):
            assert reply(RESPONSES, end(usage=said)).usage == usage


def test_unstreamed_reply_equals_its_stream() -> None:
    output = (
        *({**REASONING, "summary": [{"text": "h"}, {"text": "m"}]}, SEARCH, message("Über ", ODD)),
        *(function('{"a":1}'), message("Then")),
    )
    whole = response(*output, usage={"input_tokens": 3, "output_tokens": 5})
    streamed = [
        *({"type": "response.reasoning_summary_part.added", "summary_index": index} for index in (0,)),
        {"type": "response.reasoning_summary_text.delta", "delta": "h"},
        {"type": "response.reasoning_summary_part.added", "summary_index": 1},
        {"type": "response.reasoning_summary_text.delta", "delta": "m"},
        *({"type": "response.output_text.delta", "delta": text} for text in ("Über ", ODD[:3], ODD[3:], "Then")),
        {"type": "response.completed", "response": whole},
    ]
    (deltas, answer), (deltas_of_whole, one_of_whole) = read(RESPONSES, streamed), read(RESPONSES, as_stream(whole))
    assert answer == one_of_whole
    assert joined(deltas) == joined(deltas_of_whole) == ("Über " + ODD + "Then", "h\n\nm")


def test_invalid_count_is_unknown_and_the_reply_is_kept(subtests: pytest.Subtests) -> None:
    for value in NO_COUNTS:
        with subtests.test(value=value):
            answer = reply(
                RESPONSES,
                end(message("So"), usage={"input_tokens": value, "output_tokens": 5, "input_tokens_details": [value]}),
            )
            assert answer.message == assistant("So") and answer.usage == Usage(output=5)


def test_unsupported_picture_is_sent_as_text(subtests: pytest.Subtests) -> None:
    for name, picture in {"tiff": TIFF, "empty": NO_DATA}.items():
        with subtests.test(name):
            told = replacement_text(picture, sees=True)
            made = items(
                user(picture), assistant(call(1), call(2)), results(result(1, "plot", picture), result(2, PNG, picture))
            )
            assert made[0]["content"] == [{"type": "input_text", "text": told}]
            assert made[3]["output"] == f"plot\n{told}"
            assert [item["type"] for item in made[4]["output"]] == ["input_image", "input_text"]


def test_reply_without_items_gets_the_streamed_text() -> None:
    told = [{"type": "response.output_text.delta", "delta": text} for text in ("So", "", " it is")]
    last = {"type": "response.completed", "response": {"id": "r", "status": "completed", "output": None}}
    deltas, answer = read(RESPONSES, [*told, last])
    assert joined(deltas) == ("So it is", "") and answer.message == assistant("So it is")


def test_null_among_message_contents_is_ignored() -> None:
    item = {"type": "message", "content": [None, {"type": "output_text", "text": "So"}]}
    assert reply(RESPONSES, end(item)).message == assistant("So")


def test_finished_call_without_arguments_survives_a_truncated_reply() -> None:
    cut = {"status": "incomplete", "incomplete_details": {"reason": "max_output_tokens"}}
    bare = {"type": "function_call", "call_id": "c1", "name": "now", "arguments": ""}
    done = {"type": "response.output_item.done", "output_index": 0, "item": bare}
    last = end(**cut)
    for chunks in ([done, last], [end({**bare, "status": "completed"}, **cut)], [end({**bare, "arguments": "{}"}, **cut)]):
        answer = reply(RESPONSES, *chunks)
        assert answer.message.calls == (ToolCall("now", {}, "c1"),) and "cut_call" not in answer.metadata
    half = {**bare, "status": "incomplete"}
    for chunks in ([end(half, **cut)], [{**done, "item": half}, last]):
        assert reply(RESPONSES, *chunks).metadata["cut_call"] == "now"
