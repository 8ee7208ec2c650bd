"""Messages and their parts."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from some_events import messages

from agentnb.core.messages import Image, Message, Text, Thinking, ToolCall, ToolResult, encodable, user


def to_json(value: object) -> str:
    return msgspec.json.encode(value).decode()


@pytest.mark.req("R2.2")
@given(messages)
def test_message_survives_a_json_round_trip(message: Message) -> None:
    assert msgspec.json.decode(msgspec.json.encode(message), type=Message) == message


@pytest.mark.req("R2.2")
def test_empty_fields_are_omitted_from_json(subtests: pytest.Subtests) -> None:
    cases = [
        (Text("hi"), '{"type":"text","text":"hi"}'),
        (Thinking("hm"), '{"type":"thinking","text":"hm"}'),
        (Image("image/png", b"\x00\x01"), '{"type":"image","media_type":"image/png","data":"AAE="}'),
        (ToolCall("add"), '{"type":"tool_call","name":"add"}'),
        (ToolCall("add", {"a": 1}, "1"), '{"type":"tool_call","name":"add","arguments":{"a":1},"id":"1"}'),
        (ToolResult("1", "add"), '{"type":"tool_result","call_id":"1","name":"add"}'),
        (
            ToolResult("1", "add", (Text("no"),), True, "tool_error"),
            '{"type":"tool_result","call_id":"1","name":"add","parts":[{"type":"text","text":"no"}],'
            '"is_error":true,"error_code":"tool_error"}',
        ),
    ]
    for part, expected in cases:
        with subtests.test(part=part):
            assert to_json(part) == expected


@pytest.mark.req("R2.1")
def test_message_accepts_each_of_four_roles(subtests: pytest.Subtests) -> None:
    for role in ["system", "user", "assistant", "tool"]:
        with subtests.test(role=role):
            message = msgspec.json.decode(f'{{"role":"{role}","parts":[{{"type":"text","text":"hi"}}]}}', type=Message)
            assert (message.role, message.parts) == (role, (Text("hi"),))


@pytest.mark.req("R2.1")
def test_unknown_role_is_refused() -> None:
    with pytest.raises(msgspec.ValidationError):
        msgspec.json.decode('{"role":"robot"}', type=Message)


def test_text_of_a_message_excludes_thinking_and_results() -> None:
    message = Message("assistant", (Thinking("hm"), Text("a"), ToolCall("f"), Text("b"), ToolResult("1", "f", (Text("c"),))))
    assert message.text == "ab"


def test_calls_of_a_message_keep_their_order() -> None:
    one, two = ToolCall("a", id="1"), ToolCall("b", id="2")
    assert Message("assistant", (one, Text("and"), two)).calls == (one, two)


def test_text_of_a_result_excludes_pictures() -> None:
    assert ToolResult("1", "f", (Text("a"), Image("image/png", b""), Text("b"))).text == "a\nb"


def test_messages_and_parts_are_immutable(subtests: pytest.Subtests) -> None:
    for value in [Text("a"), ToolCall("f"), ToolResult("1", "f"), Message("user")]:
        with subtests.test(value=value):
            with pytest.raises(AttributeError):
                setattr(value, value.__struct_fields__[0], "other")


def test_user_text_becomes_a_user_message() -> None:
    assert user("hi") == Message("user", (Text("hi"),))


@given(st.text(st.characters()))
def test_only_surrogates_are_replaced(text: str) -> None:
    put_right = encodable(text)
    put_right.encode()
    if any("\ud800" <= character <= "\udfff" for character in text):
        assert user(text).text == put_right
    else:
        assert put_right is text


def test_surrogate_pairs_become_one_character() -> None:
    assert encodable("\ud83d\ude00!") == "\U0001f600!"
    assert encodable("a\ud83db") == "a�b"
