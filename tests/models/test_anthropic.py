"""``anthropic:`` as two pure functions: request to wire, stream to deltas and reply."""

from __future__ import annotations

import base64
from itertools import product
from typing import Any

import pytest
from wire_by_hand import (
    ADD,
    ANTHROPIC,
    NO_COUNTS,
    NO_DATA,
    NOW,
    ODD,
    PNG,
    TIFF,
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
from agentnb.models.defaults import MAX_TOKENS
from agentnb.models.provider import CutOff
from agentnb.models.providers.anthropic import as_stream
from agentnb.models.providers.serialization import replacement_text, words_for

THOUGHT = {"type": "thinking", "thinking": "hm", "signature": "sig=="}
REDACTED = {"type": "redacted_thinking", "data": "EqkE"}
SEARCH = {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {"q": "x"}}


def wire(*messages: Message, **given: Any) -> Any:
    return sent(ANTHROPIC, *messages, **given)


def contents(*messages: Message, **given: Any) -> list[Any]:
    return [message["content"] for message in wire(*messages, cache="no", **given)["messages"]]


# The request


def test_minimal_request_has_only_required_fields() -> None:
    assert wire(user("Hi"), cache="no", stream=False) == {
        "model": "m",
        "max_tokens": MAX_TOKENS,
        "messages": [{"role": "user", "content": [{"type": "text", "text": "Hi"}]}],
    }


def test_system_and_tools_precede_the_messages() -> None:
    body = wire(system="Be.", tools=(ADD, NOW), cache="no")
    assert list(body) == ["model", "max_tokens", "stream", "tools", "system", "messages"]
    assert body["system"] == [{"type": "text", "text": "Be."}]
    assert body["tools"][0] == {"name": "add", "description": "Adds.", "input_schema": ADD.input_schema}
    assert body["tools"][1]["input_schema"] == {"type": "object", "properties": {}}


@pytest.mark.req("R0.31")
def test_all_results_of_a_round_start_one_user_message() -> None:
    messages = (
        user("Go"),
        assistant(call(1), call(2)),
        results("Said meanwhile", result(1, "3"), "and more", result(2, "5", error=True)),
        assistant("Done"),
    )
    body = wire(*messages, cache="no")
    assert [message["role"] for message in body["messages"]] == ["user", "assistant", "user", "assistant"]
    assert body["messages"][2]["content"] == [
        {"type": "tool_result", "tool_use_id": "call_1", "content": [{"type": "text", "text": "3"}]},
        {"type": "tool_result", "tool_use_id": "call_2", "content": [{"type": "text", "text": "5"}], "is_error": True},
        {"type": "text", "text": "Said meanwhile"},
        {"type": "text", "text": "and more"},
    ]


def test_ephemeral_text_comes_last() -> None:
    for request in requests_of_a_run():
        last = sent(ANTHROPIC, *request.messages)["messages"][-1]["content"]
        assert last[-1]["text"].startswith("<system-reminder>")
        assert not any("<system-reminder>" in str(block) for block in last[:-1])


def test_text_calls_and_thinking_of_a_reply_keep_their_order() -> None:
    said = assistant(Thinking("hm", {"anthropic": THOUGHT}), "First", call(1, a=1), "Then")
    assert contents(user("Go"), said, results(result(1, "1")))[1] == [
        THOUGHT,
        {"type": "text", "text": "First"},
        {"type": "tool_use", "id": "call_1", "name": "add", "input": {"a": 1}},
        {"type": "text", "text": "Then"},
    ]


def test_thinking_and_unknown_blocks_are_sent_back_unchanged(subtests: pytest.Subtests) -> None:
    cases = [THOUGHT, {**THOUGHT, "thinking": ""}, REDACTED, SEARCH, {"type": "new", "x": [{"y": None}]}]
    for block in cases:
        with subtests.test(block=block):
            chunks = as_stream({"content": [block, {"type": "text", "text": "So."}], "stop_reason": "end_turn"})
            said = reply(ANTHROPIC, *chunks).message
            assert contents(user("Hi"), said, user("On"))[1] == [block, {"type": "text", "text": "So."}]


def test_trailing_thinking_of_a_reply_is_not_sent_back(subtests: pytest.Subtests) -> None:
    """The API refuses it; replies that were cut off or hold only thinking end like this."""
    for last, blank in product([THOUGHT, REDACTED], [(), ("  ",)]):
        with subtests.test(last=last, blank=blank):
            thought = Thinking("", {"anthropic": last})
            said = assistant(thought, "So", thought, thought, *blank)
            assert contents(user("Go"), said, user("On"))[1] == [last, {"type": "text", "text": "So"}]
            assert len(contents(user("Go"), assistant(thought, thought, *blank), user("On"))) == 2


def test_thinking_of_another_provider_is_not_sent(subtests: pytest.Subtests) -> None:
    cases = [None, {"openai": "reasoning"}, {"openai-responses": {"type": "reasoning"}}]
    for metadata in cases:
        with subtests.test(metadata=metadata):
            other = ToolCall("web.search", {"q": "x"}, "functions.web:0", {"compatible": {"extra_content": 1}})
            said = assistant(Thinking("hm", metadata), Text("", metadata), other)
            content = contents(user("Go"), said, results(ToolResult("functions.web:0", "web.search")))
            assert [block["type"] for block in content[1]] == ["tool_use"]
            assert set(content[1][0]) == {"type", "id", "name", "input"}
            assert content[1][0]["name"] == "web_search"
            assert content[1][0]["id"] == content[2][0]["tool_use_id"] != "functions.web:0"


def test_non_object_arguments_are_sent_as_an_object(subtests: pytest.Subtests) -> None:
    for arguments in ["{", [1], None, 5]:
        with subtests.test(arguments=arguments):
            content = contents(user("Go"), assistant(ToolCall("add", arguments, "1")), results(ToolResult("1", "add")))
            assert content[1][0]["input"] == {"arguments": arguments}


def test_call_metadata_is_sent_back() -> None:
    block = {"type": "tool_use", "id": "t1", "name": "add", "input": {"a": 1}, "caller": {"type": "direct"}}
    said = reply(ANTHROPIC, *as_stream({"content": [block], "stop_reason": "tool_use"})).message
    assert contents(user("Go"), said, results(ToolResult("t1", "add")))[1] == [block]


def test_pictures_are_sent_in_prompts_and_results() -> None:
    block = {
        "type": "image",
        "source": {"type": "base64", "media_type": "image/png", "data": base64.b64encode(PNG.data).decode()},
    }
    messages = (user("See", PNG), assistant(call(1)), results(result(1, "plot", PNG), PNG))
    content = contents(*messages)
    assert content[0] == [{"type": "text", "text": "See"}, block]
    assert content[2][0]["content"] == [{"type": "text", "text": "plot"}, block] and content[2][1] == block
    blind = contents(*messages, images=False)
    told = {"type": "text", "text": words_for(PNG)}
    assert blind[0][1] == told and blind[2][0]["content"][1] == told and blind[2][1] == told


def test_pictures_in_an_error_result_are_described() -> None:
    answer = contents(user("Go"), assistant(call(1)), results(result(1, "no", PNG, error=True)))[2][0]
    assert answer["content"][1] == {"type": "text", "text": words_for(PNG, "error results cannot contain pictures")}
    blind = contents(user("Go"), assistant(call(1)), results(result(1, PNG, error=True)), images=False)[2][0]
    assert blind["content"] == [{"type": "text", "text": words_for(PNG)}]


def test_unsupported_picture_is_sent_as_text(subtests: pytest.Subtests) -> None:
    for name, picture in {"tiff": TIFF, "empty": NO_DATA}.items():
        with subtests.test(name):
            told = {"type": "text", "text": replacement_text(picture, sees=True)}
            for error in (False, True):
                content = contents(user(picture), assistant(call(1)), results(result(1, picture, error=error), picture))
                assert content[0] == [told] and content[2][0]["content"] == [told] and content[2][1] == told


def test_empty_result_is_sent_as_no_value(subtests: pytest.Subtests) -> None:
    for parts in [(), ("",), ("  \n",)]:
        with subtests.test(parts=parts):
            answer = contents(user("Go"), assistant(call(1)), results(result(1, *parts, error=True)))[2][0]
            assert answer == {"type": "tool_result", "tool_use_id": "call_1", "content": "(no value)", "is_error": True}


def test_blank_text_and_messages_of_only_blanks_are_omitted() -> None:
    content = contents(user("Go", " "), assistant("", Thinking("hm")), user("On"))
    assert content == [[{"type": "text", "text": "Go"}], [{"type": "text", "text": "On"}]]


def test_unusual_text_is_sent_unchanged() -> None:
    messages = (user(ODD), assistant(ODD, call(1, **{ODD: ODD})), results(result(1, ODD)))
    body = wire(*messages, system=ODD, cache="no")
    assert body["system"][0]["text"] == body["messages"][0]["content"][0]["text"] == ODD
    assert body["messages"][1]["content"][1]["input"] == {ODD: ODD}
    assert body["messages"][2]["content"][0]["content"][0]["text"] == ODD


SETTINGS = [
    ({"max_tokens": 7}, {"max_tokens": 7}),
    ({"max_tokens": 7, "settings": {"max_tokens": 8}}, {"max_tokens": 8}),
    ({"stream": True}, {"stream": True}),
    ({"stop": ("a", "b")}, {"stop_sequences": ["a", "b"]}),
    ({"effort": "high"}, {"output_config": {"effort": "high"}}),
    ({"output_schema": {"a": 1}}, {"output_config": {"format": {"type": "json_schema", "schema": {"a": 1}}}}),
    ({"thinking": "off"}, {"thinking": {"type": "disabled"}}),
    ({"thinking": "adaptive"}, {"thinking": {"type": "adaptive", "display": "summarized"}}),
    (
        {"thinking": "2048"},
        {"thinking": {"type": "enabled", "budget_tokens": 2048}, "max_tokens": MAX_TOKENS + 2048},
    ),
    ({"tools": (ADD,), "settings": {"tool_choice": "auto"}}, {"tool_choice": {"type": "auto"}}),
    ({"tools": (ADD,), "settings": {"tool_choice": "none"}, "parallel": False}, {"tool_choice": {"type": "none"}}),
    ({"tools": (ADD,), "settings": {"tool_choice": "required"}}, {"tool_choice": {"type": "any"}}),
    ({"tools": (ADD,), "settings": {"tool_choice": "add"}}, {"tool_choice": {"type": "tool", "name": "add"}}),
    ({"tools": (ADD,), "parallel": False}, {"tool_choice": {"type": "auto", "disable_parallel_tool_use": True}}),
    ({"tools": (ADD,), "parallel": True}, {"tool_choice": {"type": "auto", "disable_parallel_tool_use": False}}),
    ({"settings": {"tool_choice": "auto"}, "parallel": True}, {}),
    ({"temperature": 0.5, "echo": True}, {}),
]


def test_settings_are_sent_under_the_api_names(subtests: pytest.Subtests) -> None:
    for given, fields in SETTINGS:
        with subtests.test(given=given):
            body = wire(user("Hi"), cache="no", **{"stream": False, **given})
            usual = wire(user("Hi"), cache="no", stream=False, tools=given.get("tools", ()))
            assert body == usual | fields


# The reply


START = {"type": "message_start", "message": {"id": "msg_1", "model": "claude-x", "content": [], "usage": {"input_tokens": 3}}}


def begin(index: int, **block: Any) -> dict[str, Any]:
    return {"type": "content_block_start", "index": index, "content_block": block}


def piece(index: int, kind: str, **fields: Any) -> dict[str, Any]:
    return {"type": "content_block_delta", "index": index, "delta": {"type": kind, **fields}}


def text(index: int, text: str) -> dict[str, Any]:
    return piece(index, "text_delta", text=text)


def part_of_input(index: int, json: str) -> dict[str, Any]:
    return piece(index, "input_json_delta", partial_json=json)


def end(reason: str | None = "end_turn", **fields: Any) -> dict[str, Any]:
    return {"type": "message_delta", "delta": {"stop_reason": reason, **fields}, "usage": {"output_tokens": 5}}


def test_text_thinking_and_calls_are_read_from_a_stream() -> None:
    deltas, answer = read(
        ANTHROPIC,
        [
            START,
            begin(0, type="thinking", thinking="", signature=""),
            piece(0, "thinking_delta", thinking="h"),
            {"type": "ping"},
            piece(0, "thinking_delta", thinking="m"),
            piece(0, "signature_delta", signature="si"),
            piece(0, "signature_delta", signature="g"),
            {"type": "content_block_stop", "index": 0},
            begin(1, type="text", text=""),
            text(1, "So"),
            text(1, ""),
            piece(1, "citations_delta", citation={"x": 1}),
            text(1, " it is"),
            begin(2, type="tool_use", id="t1", name="add", input={}),
            begin(3, type="tool_use", id="t2", name="now", input={}),
            part_of_input(2, ""),
            part_of_input(2, '{"a"'),
            part_of_input(3, ""),
            part_of_input(2, ": 1}"),
            end("tool_use"),
            {"type": "message_stop"},
        ],
    )
    assert deltas == [ThinkingDelta("h"), ThinkingDelta("m"), TextDelta("So"), TextDelta(" it is")]
    thought = Thinking("hm", {"anthropic": {"type": "thinking", "thinking": "hm", "signature": "sig"}})
    assert answer.message == Message(
        "assistant", (thought, Text("So it is"), ToolCall("add", {"a": 1}, "t1"), ToolCall("now", {}, "t2"))
    )
    assert answer.stop_reason == "tool_use"
    assert answer.metadata == {"id": "msg_1", "model": "claude-x"}
    assert answer.usage == Usage(input=3, output=5)


def test_content_in_a_block_start_is_streamed_at_once() -> None:
    deltas, answer = read(
        ANTHROPIC,
        [
            begin(0, type="thinking", thinking="hm", signature="s"),
            begin(1, type="text", text="All"),
            text(1, " of it"),
            begin(2, type="tool_use", id="t", name="add", input={"a": 1}),
            end(),
        ],
    )
    assert deltas == [ThinkingDelta("hm"), TextDelta("All"), TextDelta(" of it")]
    assert answer.message.text == "All of it" and answer.message.calls == (ToolCall("add", {"a": 1}, "t"),)


def test_unknown_kinds_are_ignored() -> None:
    chunks = [
        *(START, {"type": "new_event", "x": 1}, {}, {"type": None}, begin(0, type="text", text=""), text(0, "a")),
        *(piece(0, "new_delta", x=1), {"type": "content_block_delta", "index": 9, "delta": {}}, end("brand_new_reason")),
    ]
    answer = reply(ANTHROPIC, *chunks)
    assert answer.message == assistant("a") and answer.stop_reason == "brand_new_reason"


def test_streamed_input_of_a_provider_tool_is_sent_back() -> None:
    for kind in ("server_tool_use", "mcp_tool_use", "some_new_tool_use"):
        block = begin(0, type=kind, id="s", name="web_search", input={})
        answer = reply(ANTHROPIC, START, block, part_of_input(0, '{"q": '), part_of_input(0, '"x"}'), end())
        own = {"type": kind, "id": "s", "name": "web_search", "input": {"q": "x"}}
        assert answer.message.parts == (Text("", {"anthropic": own}),)


def test_an_empty_reply_has_no_parts() -> None:
    assert reply(ANTHROPIC, START, begin(0, type="text", text=""), end()).message.parts == ()
    assert reply(ANTHROPIC, START, end()).message.parts == ()


def test_invalid_json_arguments_are_kept_as_text(subtests: pytest.Subtests) -> None:
    for broken in ['{"a": ', "add(1)", "[1, 2"]:
        with subtests.test(broken):
            chunks = (START, begin(0, type="tool_use", id="t", name="add", input={}), part_of_input(0, broken), end("tool_use"))
            assert reply(ANTHROPIC, *chunks).message.calls == (ToolCall("add", broken, "t"),)


def test_incomplete_call_of_a_truncated_reply_is_dropped_and_named(subtests: pytest.Subtests) -> None:
    for reason, came in product(["max_tokens", "model_context_window_exceeded"], ['{"a": ', "", None]):
        with subtests.test(reason=reason, came=came):
            fragment = [] if came is None else [part_of_input(1, came)]
            chunks = [
                START,
                begin(0, type="text", text="So"),
                begin(1, type="tool_use", id="t", name="add", input={}),
                *fragment,
            ]
            answer = reply(ANTHROPIC, *chunks, end(reason))
            assert answer.message == assistant("So")
            assert answer.metadata["cut_call"] == "add"


def test_complete_calls_of_a_truncated_reply_are_kept() -> None:
    whole = [begin(0, type="tool_use", id="t", name="add", input={}), part_of_input(0, '{"a": 1}')]
    for rest in ([], [begin(1, type="tool_use", id="u", name="add", input={}), part_of_input(1, "{")]):
        answer = reply(ANTHROPIC, START, *whole, *rest, end("max_tokens"))
        assert answer.message.calls == (ToolCall("add", {"a": 1}, "t"), *([ToolCall("add", "{", "u")] if rest else []))
        assert ("cut_call" in answer.metadata) == bool(rest)


def test_refusal_reason_is_kept() -> None:
    details = {"category": "cyber", "explanation": "no"}
    answer = reply(ANTHROPIC, START, end("refusal", stop_details=details, stop_sequence=None))
    assert answer.stop_reason == "refusal"
    assert answer.metadata == {"id": "msg_1", "model": "claude-x", "stop_details": details}


def test_stop_sequence_is_kept() -> None:
    assert reply(ANTHROPIC, START, end("stop_sequence", stop_sequence="END")).metadata["stop_sequence"] == "END"


def test_paused_reply_is_sent_back_unchanged() -> None:
    said = reply(ANTHROPIC, *as_stream({"content": [THOUGHT, SEARCH], "stop_reason": "pause_turn"}))
    assert said.stop_reason == "pause_turn"
    assert contents(user("Go"), said.message)[1] == [THOUGHT, SEARCH]


def test_stream_without_an_end_event_is_cut_off(subtests: pytest.Subtests) -> None:
    cases = [[], [START], [START, begin(0, type="text", text=""), text(0, "So")], [START, end(None)]]
    for chunks in cases:
        with subtests.test(chunks=chunks):
            with pytest.raises(CutOff):
                read(ANTHROPIC, chunks)


COUNTS = [
    ([{}, {}], Usage()),
    ([None, None], Usage()),
    ([{"input_tokens": 3, "output_tokens": 1}, {"output_tokens": 9}], Usage(input=3, output=9)),
    (
        [
            {"input_tokens": 3, "cache_read_input_tokens": 100, "cache_creation_input_tokens": 20, "output_tokens": 1},
            {"input_tokens": None, "output_tokens": 9, "output_tokens_details": {"thinking_tokens": 4}},
        ],
        Usage(input=123, output=9, cache_read=100, cache_write=20, reasoning=4),
    ),
    ([{"cache_read_input_tokens": 0}, {"input_tokens": 0, "output_tokens": 0}], Usage(input=0, output=0, cache_read=0)),
]


def test_reported_tokens_are_counted_and_missing_ones_unknown(subtests: pytest.Subtests) -> None:
    for said, usage in COUNTS:
        with subtests.test(said=said):
            chunks = [{"type": "message_start", "message": {"usage": said[0]}}, {**end(), "usage": said[1]}]
            assert reply(ANTHROPIC, *chunks).usage == usage


def test_unstreamed_reply_equals_its_stream() -> None:
    blocks = [
        *(THOUGHT, REDACTED, {"type": "text", "text": "Über " + ODD}, SEARCH),
        *({"type": "tool_use", "id": "t", "name": "add", "input": {"a": [1]}}, {"type": "text", "text": "Then"}),
    ]
    usage = {"input_tokens": 3, "output_tokens": 5, "cache_read_input_tokens": 7}
    whole = {"id": "msg_1", "model": "claude-x", "content": blocks, "stop_reason": "tool_use", "usage": usage}
    streamed = [
        {"type": "message_start", "message": {**whole, "content": [], "stop_reason": None, "usage": {"input_tokens": 3}}},
        *(begin(0, type="thinking", thinking="", signature=""), piece(0, "thinking_delta", thinking="h")),
        *(piece(0, "thinking_delta", thinking="m"), piece(0, "signature_delta", signature="sig==")),
        *(begin(1, **REDACTED), begin(2, type="text", text=""), text(2, "Über "), text(2, ODD)),
        *(begin(3, **{**SEARCH, "input": {}}), part_of_input(3, '{"q":"x"}')),
        *(begin(4, type="tool_use", id="t", name="add", input={}), part_of_input(4, '{"a":[1'), part_of_input(4, "]}")),
        *(begin(5, type="text", text=""), text(5, "Then")),
        {"type": "message_delta", "delta": {"stop_reason": "tool_use"}, "usage": usage},
    ]
    (deltas, answer), (deltas_of_whole, one_of_whole) = read(ANTHROPIC, streamed), read(ANTHROPIC, as_stream(whole))
    assert answer == one_of_whole
    assert joined(deltas) == joined(deltas_of_whole) == ("Über " + ODD + "Then", "hm")


def test_request_after_calls_sends_tools_even_without_tools() -> None:
    body = sent(ANTHROPIC, user("Hi"), assistant(call(1), call(2, "now")), results(result(1, "3"), result(2, "noon")))
    assert [tool["name"] for tool in body["tools"]] == ["add", "now"] and body["tool_choice"] == {"type": "none"}
    assert "tools" not in sent(ANTHROPIC, user("Hi"), assistant("Ho"), user("Hi"))


def test_invalid_count_is_unknown_and_the_reply_is_kept(subtests: pytest.Subtests) -> None:
    for value in NO_COUNTS:
        with subtests.test(value=value):

            def usage_of(**usage: Any) -> Usage:
                chunks = ({"type": "message_start", "message": {}}, begin(0, type="text", text="So"), {**end(), "usage": usage})
                answer = reply(ANTHROPIC, *chunks)
                assert answer.message == assistant("So")
                return answer.usage

            assert usage_of(input_tokens=value, output_tokens=5) == Usage(output=5)
            counts = {"input_tokens": 3, "cache_read_input_tokens": value, "cache_creation_input_tokens": value}
            assert usage_of(**counts, output_tokens=value, output_tokens_details=value) == Usage(input=3)
            assert usage_of(output_tokens_details={"thinking_tokens": value}) == Usage()


def test_text_and_thinking_need_no_start_event() -> None:
    thought = (piece(0, "thinking_delta", thinking="hm"), piece(0, "signature_delta", signature="sig"))
    deltas, answer = read(ANTHROPIC, [START, *thought, text(1, "So"), text(1, " it is"), end()])
    assert joined(deltas) == ("So it is", "hm")
    own = {"type": "thinking", "thinking": "hm", "signature": "sig"}
    assert answer.message == assistant(Thinking("hm", {"anthropic": own}), "So it is")


def test_arguments_without_a_call_are_refused() -> None:
    with pytest.raises(KeyError):
        read(ANTHROPIC, [START, part_of_input(0, "{}"), end()])


def test_signature_may_start_empty() -> None:
    chunks = [begin(0, type="thinking", thinking="hm", signature=None), piece(0, "signature_delta", signature="sig")]
    assert reply(ANTHROPIC, START, *chunks, end()).message.parts[0].provider_metadata["anthropic"]["signature"] == "sig"


def test_finished_call_without_arguments_survives_a_truncated_reply(subtests: pytest.Subtests) -> None:
    cases = {"empty": [part_of_input(0, "{}")], "stop": [{"type": "content_block_stop", "index": 0}]}
    for name, rest in cases.items():
        with subtests.test(name):
            answer = reply(ANTHROPIC, START, begin(0, type="tool_use", id="t", name="now", input={}), *rest, end("max_tokens"))
            assert answer.message.calls == (ToolCall("now", {}, "t"),) and "cut_call" not in answer.metadata
