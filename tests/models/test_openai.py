"""``openai:`` as two pure functions: request to wire, stream to deltas and reply."""

from __future__ import annotations

import json
from typing import Any

import pytest
from wire_by_hand import (
    ADD,
    NO_COUNTS,
    NO_DATA,
    NOW,
    ODD,
    OPENAI,
    PNG,
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
from agentnb.models.providers.chat_chunks import as_stream
from agentnb.models.providers.serialization import replacement_text, words_for


def messages(*given: Message, **settings: Any) -> list[Any]:
    made: list[Any] = sent(OPENAI, *given, **settings)["messages"]
    return made


# The request


def test_minimal_request_has_only_required_fields() -> None:
    assert sent(OPENAI, user("Hi"), stream=False) == {"model": "m", "messages": [{"role": "user", "content": "Hi"}]}


def test_system_and_tools_are_sent() -> None:
    body = sent(OPENAI, user("Hi"), system="Be.", tools=(ADD, NOW))
    assert body["messages"] == [{"role": "system", "content": "Be."}, {"role": "user", "content": "Hi"}]
    first = {"name": "add", "description": "Adds.", "parameters": ADD.input_schema}
    assert body["tools"][0] == {"type": "function", "function": first}
    assert body["tools"][1]["function"]["parameters"] == {"type": "object", "properties": {}}


def test_streaming_request_asks_for_token_counts() -> None:
    body = sent(OPENAI, stream=True)
    assert (body["stream"], body["stream_options"]) == (True, {"include_usage": True})


def test_each_result_is_a_message_followed_by_the_text() -> None:
    round_trip = (assistant("So.", call(1, a=1), call(2)), results("Said", result(1, "3"), result(2, "x", "y"), "and more"))
    assert messages(user("Go"), *round_trip)[1:] == [
        {
            "role": "assistant",
            "content": "So.",
            "tool_calls": [
                {"id": "call_1", "type": "function", "function": {"name": "add", "arguments": '{"a":1}'}},
                {"id": "call_2", "type": "function", "function": {"name": "add", "arguments": "{}"}},
            ],
        },
        {"role": "tool", "tool_call_id": "call_1", "content": "3"},
        {"role": "tool", "tool_call_id": "call_2", "content": "x\ny"},
        {"role": "user", "content": "Said\n\nand more"},
    ]


def test_ephemeral_text_comes_last() -> None:
    for request in requests_of_a_run():
        *others, last = messages(*request.messages)
        assert last["role"] == "user" and "<system-reminder>" in last["content"]
        assert not any("<system-reminder>" in str(other) for other in others)


def test_thinking_and_blocks_of_other_providers_are_not_sent(subtests: pytest.Subtests) -> None:
    cases = [Thinking("hm"), Thinking("hm", {"openai": "reasoning"}), Text("", {"anthropic": {"x": 1}})]
    for part in cases:
        with subtests.test(part=part):
            other = ToolCall(
                "web.search", {"q": "x"}, "functions.web:0", {"anthropic": {"caller": 1}, "compatible": {"extra": 1}}
            )
            answered = results(ToolResult("functions.web:0", "web.search", (Text("found"),)))
            made = messages(user("Go"), assistant(part, other), answered)
            assert set(made[1]) == {"role", "content", "tool_calls"} and made[1]["content"] is None
            assert set(made[1]["tool_calls"][0]) == {"id", "type", "function"}
            assert made[1]["tool_calls"][0]["function"]["name"] == "web_search"
            assert made[1]["tool_calls"][0]["id"] == made[2]["tool_call_id"] != "functions.web:0"


def test_empty_reply_is_omitted() -> None:
    assert [one["role"] for one in messages(user("Go"), assistant(Thinking("hm"), " "), user("On"))] == ["user", "user"]


def test_non_object_arguments_are_sent_as_an_object(subtests: pytest.Subtests) -> None:
    cases = [("{", '{"arguments":"{"}'), ([1], '{"arguments":[1]}'), ({}, "{}")]
    for given, arguments in cases:
        with subtests.test(given=given):
            made = messages(user("Go"), assistant(ToolCall("add", given, "1")), results(ToolResult("1", "add")))
            assert made[1]["tool_calls"][0]["function"]["arguments"] == arguments


def test_pictures_in_results_follow_in_a_user_message() -> None:
    picture = {"type": "image_url", "image_url": {"url": URL}}
    both = (assistant(call(1), call(2)), results(result(1, "plot", PNG), result(2, PNG), "Well?"))
    made = messages(user("See", PNG), *both)
    assert made[0]["content"] == [{"type": "text", "text": "See"}, picture]
    assert [item["content"] for item in made[2:4]] == ["plot", "(shown below)"]
    assert made[4]["content"] == [
        *({"type": "text", "text": "Pictures returned by add for call_1:"}, picture),
        *({"type": "text", "text": "Pictures returned by add for call_2:"}, picture),
        {"type": "text", "text": "Well?"},
    ]
    blind = messages(user("See", PNG), *both, images=False)
    assert blind[0]["content"] == f"See\n\n{words_for(PNG)}"
    assert [item["content"] for item in blind[2:]] == [f"plot\n{words_for(PNG)}", words_for(PNG), "Well?"]


def test_empty_result_is_sent_as_no_value() -> None:
    for images in (None, False):
        made = messages(user("Go"), assistant(call(1), call(2)), results(result(1), result(2, "", error=True)), images=images)
        assert made[2]["content"] == "(no value)"
        assert made[3]["content"]


def test_unusual_text_is_sent_unchanged() -> None:
    made = messages(user(ODD), assistant(ODD, call(1, **{ODD: ODD})), results(result(1, ODD)), system=ODD)
    assert [item["content"] for item in made] == [ODD] * 4
    assert json.loads(made[2]["tool_calls"][0]["function"]["arguments"]) == {ODD: ODD}


SETTINGS = [
    ({"max_tokens": 7}, {"max_completion_tokens": 7}),
    ({"max_tokens": 7, "settings": {"max_tokens": 8}}, {"max_completion_tokens": 8}),
    ({"temperature": 0.0}, {"temperature": 0.0}),
    ({"seed": 0}, {"seed": 0}),
    ({"effort": "none"}, {"reasoning_effort": "none"}),
    ({"stop": ("a", "b")}, {"stop": ["a", "b"]}),
    (
        {"output_schema": {"a": 1}},
        {"response_format": {"type": "json_schema", "json_schema": {"name": "answer", "schema": {"a": 1}}}},
    ),
    ({"tools": (ADD,), "settings": {"tool_choice": "auto"}}, {"tool_choice": "auto"}),
    ({"tools": (ADD,), "settings": {"tool_choice": "none"}}, {"tool_choice": "none"}),
    ({"tools": (ADD,), "settings": {"tool_choice": "required"}}, {"tool_choice": "required"}),
    (
        {"tools": (ADD,), "settings": {"tool_choice": "add"}},
        {"tool_choice": {"type": "function", "function": {"name": "add"}}},
    ),
    ({"tools": (ADD,), "parallel": False}, {"parallel_tool_calls": False}),
    ({"tools": (ADD,), "parallel": True}, {"parallel_tool_calls": True}),
    ({"settings": {"tool_choice": "auto"}, "parallel": True}, {}),
    ({"thinking": "adaptive", "cache": "1h"}, {}),
]


def test_settings_are_sent_under_the_api_names(subtests: pytest.Subtests) -> None:
    for given, fields in SETTINGS:
        with subtests.test(given=given):
            usual = sent(OPENAI, stream=False, tools=given.get("tools", ()))
            assert sent(OPENAI, **{"stream": False, **given}) == usual | fields


# The reply


def chunk(finish: str | None = None, **delta: Any) -> dict[str, Any]:
    return {"id": "c1", "model": "gpt-x", "choices": [{"index": 0, "delta": delta, "finish_reason": finish}], "usage": None}


def fragment(index: int | None = None, call_id: str | None = None, name: str | None = None, arguments: Any = None) -> Any:
    function = {key: value for key, value in {"name": name, "arguments": arguments}.items() if value is not None}
    given = {"index": index, "id": call_id, "function": function or None}
    return {key: value for key, value in given.items() if value is not None}


def calls(*fragments: Any) -> list[Any]:
    return [chunk(tool_calls=[piece]) for piece in fragments]


def test_text_thinking_and_calls_are_read_from_a_stream() -> None:
    deltas, answer = read(
        OPENAI,
        [
            {"id": "c1", "choices": [], "prompt_filter_results": []},
            chunk(role="assistant", content=""),
            chunk(reasoning_content="h"),
            chunk(reasoning_content="m", content=None),
            chunk(content="So"),
            chunk(),
            chunk(content=" it is"),
            *calls(fragment(0, "a", "add", ""), fragment(1, "b", "now", "")),
            *calls(fragment(0, arguments='{"a"'), fragment(1, arguments="{}"), fragment(0, arguments=": 1}")),
            chunk("tool_calls"),
            {"id": "c1", "choices": [], "usage": {"prompt_tokens": 3, "completion_tokens": 5}},
        ],
    )
    assert deltas == [ThinkingDelta("h"), ThinkingDelta("m"), TextDelta("So"), TextDelta(" it is")]
    assert answer.message.parts == (
        *(Thinking("hm", {"openai": {"reasoning_content": None}}), Text("So it is")),
        *(ToolCall("add", {"a": 1}, "a"), ToolCall("now", {}, "b")),
    )
    assert (answer.stop_reason, answer.usage) == ("tool_calls", Usage(input=3, output=5))
    assert answer.metadata["id"] == "c1"


def test_unknown_fields_are_ignored() -> None:
    strange = {"id": "c1", "choices": [{"delta": {"content": "a", "new": 1, "annotations": []}, "logprobs": {}}], "new": 1}
    assert reply(OPENAI, strange, {}, {"choices": None}, {"choices": [{}]}, chunk("brand_new")).message == assistant("a")
    assert reply(OPENAI, chunk("brand_new")).stop_reason == "brand_new"


def test_refusal_becomes_text_and_the_stop_reason() -> None:
    deltas, answer = read(OPENAI, [chunk(refusal="I can"), chunk(refusal="not"), chunk("stop")])
    assert joined(deltas) == ("I cannot", "") and answer.message == assistant("I cannot")
    assert answer.stop_reason == "refusal"


def test_stop_reason_is_kept_as_the_api_names_it() -> None:
    for reason in ("stop", "content_filter", "length", "function_call"):
        assert reply(OPENAI, chunk(content="a"), chunk(reason), chunk()).stop_reason == reason


def test_invalid_json_arguments_are_kept_as_text(subtests: pytest.Subtests) -> None:
    for broken in ['{"a": ', "add(1)"]:
        with subtests.test(broken):
            chunks = (*calls(fragment(0, "a", "add", broken)), chunk("tool_calls"))
            assert reply(OPENAI, *chunks).message.calls == (ToolCall("add", broken, "a"),)


def test_incomplete_call_of_a_truncated_reply_is_named(subtests: pytest.Subtests) -> None:
    for came in ['{"a": ', ""]:
        with subtests.test(came):
            half = fragment(1, "b", "now", came)
            answer = reply(OPENAI, chunk(content="So"), *calls(fragment(0, "a", "add", '{"a": 1}'), half), chunk("length"))
            assert answer.message == assistant("So", ToolCall("add", {"a": 1}, "a"), ToolCall("now", came, "b"))
            assert answer.metadata["cut_call"] == "now"
            alone = reply(OPENAI, chunk(content="So"), *calls(fragment(0, "b", "now", came)), chunk("length"))
            assert alone.message == assistant("So") and alone.metadata["cut_call"] == "now"


def test_complete_calls_of_a_truncated_reply_are_kept() -> None:
    answer = reply(OPENAI, *calls(fragment(0, "a", "add", '{"a": 1}')), chunk("length"))
    assert answer.message.calls == (ToolCall("add", {"a": 1}, "a"),) and "cut_call" not in answer.metadata


def test_stream_without_an_end_event_is_cut_off(subtests: pytest.Subtests) -> None:
    cases = [[], [chunk(content="So")], calls(fragment(0, "a", "add", "{}")), [{"choices": [], "usage": {"prompt_tokens": 1}}]]
    for chunks in cases:
        with subtests.test(chunks=chunks):
            with pytest.raises(CutOff):
                read(OPENAI, chunks)


def test_an_empty_reply_has_no_parts() -> None:
    assert reply(OPENAI, chunk(content="", reasoning_content="", tool_calls=[]), chunk("stop")).message.parts == ()


def test_error_instead_of_a_reply_is_a_refusal(subtests: pytest.Subtests) -> None:
    cases = [
        ({"code": 429, "message": "slow down"}, "429", "slow down"),
        ({"type": "overloaded", "message": "busy", "code": None}, "overloaded", "busy"),
        *[("busy", "", "busy"), ({"x": 1}, "", "")],
    ]
    for error, name, message in cases:
        with subtests.test(error=error, name=name, message=message):
            with pytest.raises(Refused) as refused:
                read(OPENAI, as_stream({"error": error}))
            assert (refused.value.details.name, refused.value.details.message) == (name, message)


COUNTS = [
    *[(None, Usage()), ({}, Usage()), ({"total_tokens": 3}, Usage())],
    ({"prompt_tokens": 0, "completion_tokens": 0}, Usage(input=0, output=0)),
    (
        {
            **{"prompt_tokens": 10, "completion_tokens": 5},
            "prompt_tokens_details": {"cached_tokens": 7, "cache_write_tokens": 2},
            "completion_tokens_details": {"reasoning_tokens": 4},
        },
        Usage(input=10, output=5, cache_read=7, cache_write=2, reasoning=4),
    ),
    (
        {"prompt_tokens": 1, "prompt_tokens_details": None, "completion_tokens_details": {"reasoning_tokens": None}},
        Usage(input=1),
    ),
]


def test_reported_tokens_are_counted_and_missing_ones_unknown(subtests: pytest.Subtests) -> None:
    for said, usage in COUNTS:
        with subtests.test(said=said, usage=usage):
            assert reply(OPENAI, chunk("stop"), {"choices": [], "usage": said}).usage == usage
            assert reply(OPENAI, {**chunk("stop"), "usage": said}).usage == usage


def test_unstreamed_reply_equals_its_stream() -> None:
    function = {"name": "add", "arguments": '{"a":1}'}
    message = {
        **{"role": "assistant", "content": "Über " + ODD, "refusal": None, "reasoning": "hm", "annotations": []},
        "tool_calls": [{"id": "a", "type": "function", "function": function}, {"id": "b", "function": function}],
    }
    usage = {"prompt_tokens": 3, "completion_tokens": 5}
    choice = {"index": 0, "message": message, "finish_reason": "tool_calls", "logprobs": None}
    whole = {"id": "c1", "model": "gpt-x", "choices": [choice], "usage": usage}
    streamed = [
        *(chunk(reasoning="h"), chunk(reasoning="m"), chunk(content="Über "), chunk(content=ODD)),
        *calls(fragment(0, "a", "add", '{"a"'), fragment(1, "b", "add"), fragment(0, None, None, ":1}")),
        *(*calls(fragment(1, arguments='{"a":1}')), chunk("tool_calls"), {"choices": [], "usage": usage}),
    ]
    (deltas, answer), (deltas_of_whole, one_of_whole) = read(OPENAI, streamed), read(OPENAI, as_stream(whole))
    assert answer == one_of_whole
    assert joined(deltas) == joined(deltas_of_whole) == ("Über " + ODD, "hm")


def test_invalid_count_is_unknown_and_the_reply_is_kept(subtests: pytest.Subtests) -> None:
    for value in NO_COUNTS:
        with subtests.test(value=value):
            usage = {"prompt_tokens": value, "completion_tokens": 5, "prompt_tokens_details": {"cached_tokens": value}}
            answer = reply(OPENAI, chunk("stop", content="So"), {"choices": [], "usage": usage})
            assert answer.message == assistant("So") and answer.usage == Usage(output=5)
            usage = {"prompt_tokens": 3, "prompt_tokens_details": value, "completion_tokens_details": [value]}
            assert reply(OPENAI, chunk("stop"), {"choices": [], "usage": usage}).usage == Usage(input=3)
            assert reply(OPENAI, chunk("stop"), {"choices": [], "usage": value}).usage == Usage()


def test_unsupported_picture_is_sent_as_text(subtests: pytest.Subtests) -> None:
    for name, picture in {"tiff": TIFF, "empty": NO_DATA}.items():
        with subtests.test(name):
            told = replacement_text(picture, sees=True)
            made = messages(
                user("See", picture), assistant(call(1), call(2)), results(result(1, "plot", picture), result(2, PNG))
            )
            assert made[0]["content"] == f"See\n\n{told}"
            assert [item["content"] for item in made[2:4]] == [f"plot\n{told}", "(shown below)"]
            assert [item["type"] for item in made[4]["content"]] == ["text", "image_url"]


def test_malformed_chunks_are_skipped_and_their_text_kept() -> None:
    strange = [
        *({"choices": [None]}, {"choices": [{"index": 0, "delta": "So "}]}, {"choices": [{"index": 0, "delta": ["x"]}]}),
        chunk(content=[None, {"type": "text", "text": None}, {"type": "text"}, {"type": "text", "text": "it is"}]),
        chunk("stop", tool_calls=[None, "x"]),
    ]
    deltas, answer = read(OPENAI, strange)
    assert joined(deltas) == ("So it is", "") and answer.message == assistant("So it is")


def test_first_of_several_choices_is_used() -> None:
    def both(first: str, second: str, finish: str | None = None) -> Any:
        zero = {"index": 0, "delta": {"content": first}, "finish_reason": finish}
        return {"choices": [zero, {"index": 1, "delta": {"content": second}, "finish_reason": "length"}]}

    other = {"choices": [{"index": 1, "delta": {"content": "X"}, "finish_reason": "length"}]}
    answer = reply(OPENAI, both("a", "x"), other, both("b", "y"), other, chunk("stop"), other)
    assert answer.message == assistant("ab") and answer.stop_reason == "stop"
    whole = {"choices": [None, *({"index": n, "message": {"content": str(n)}, "finish_reason": "stop"} for n in (0, 1))]}
    assert reply(OPENAI, *as_stream(whole)).message == assistant("0")


def test_numeric_id_is_accepted() -> None:
    fragments = calls(
        {"index": 0, "id": 0, "function": {"name": "add", "arguments": "{"}}, {"index": 0, "id": 0}, fragment(0, arguments="}")
    )
    assert reply(OPENAI, *fragments, chunk("tool_calls")).message.calls == (ToolCall("add", {}, "0"),)


def test_call_with_empty_arguments_survives_a_truncated_reply() -> None:
    answer = reply(OPENAI, *calls(fragment(0, "a", "now", "{"), fragment(0, arguments="} ")), chunk("length"))
    assert answer.message.calls == (ToolCall("now", {}, "a"),) and "cut_call" not in answer.metadata
