"""Pieces of messages that all wires share."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from wire_by_hand import ADD, NO_COUNTS, NO_DATA, ODD, PNG, TIFF, URL

from agentnb.core.messages import Image, Message, Text, Thinking, ToolCall
from agentnb.core.request import ToolSpec
from agentnb.core.usage import Usage
from agentnb.models import Reply
from agentnb.models.providers.serialization import (
    SAFE_ID,
    SAFE_NAME,
    arguments_of,
    count,
    data_url,
    encode,
    in_words,
    join_fragments,
    object_of,
    parameters,
    read_arguments,
    repair_arguments,
    replacement_text,
    safe_id,
    safe_name,
    sanitize_reply,
    without_half_call,
    without_last_thoughts,
    words,
    words_for,
)

TEXTS = st.text(st.characters(codec="utf-8"), max_size=80)


def test_name_valid_for_all_providers_is_kept(subtests: pytest.Subtests) -> None:
    for name in ["add", "a-b_C9", "x" * 64]:
        with subtests.test(name):
            assert safe_name(name) == name


def test_invalid_tool_name_becomes_valid(subtests: pytest.Subtests) -> None:
    cases = [("web.search", "web_search"), ("größe", "gr__e"), ("x" * 80, "x" * 64), ("", "_"), ("a\n", "a_")]
    for name, made in cases:
        with subtests.test(name):
            assert safe_name(name) == made


def test_id_valid_for_all_providers_is_kept(subtests: pytest.Subtests) -> None:
    for call_id in ["call_1", "toolu_01A-b", "x" * 40]:
        with subtests.test(call_id):
            assert safe_id(call_id) == call_id


@given(TEXTS, TEXTS)
def test_ids_become_valid_and_stay_distinct(one: str, other: str) -> None:
    assert SAFE_ID.fullmatch(safe_id(one)) and SAFE_NAME.fullmatch(safe_name(one))
    assert (safe_id(one) == safe_id(other)) == (one == other)


def test_long_ids_with_equal_beginnings_and_symbol_ids_stay_different() -> None:
    given = ["chatcmpl-tool-" + "0" * 32 + str(number) for number in range(9)] + ["a.1", "a:1", "a 1", "", "_"]
    assert len({safe_id(one) for one in given}) == len(given)


def test_arguments_are_always_sent_as_an_object(subtests: pytest.Subtests) -> None:
    cases = [({"a": 1}, {"a": 1}), ([1], {"arguments": [1]}), ("{", {"arguments": "{"})]
    for arguments, sent in cases:
        with subtests.test(arguments=arguments):
            assert arguments_of(ToolCall("f", arguments)) == sent


def test_invalid_json_arguments_stay_unchanged_text(subtests: pytest.Subtests) -> None:
    cases = [
        *[('{"a": [1, null]}', {"a": [1, None]}), ("", {}), (" \n", {}), ("[1]", [1]), ("null", None)],
        *[('{"a": 1', '{"a": 1'), ("{'a': 1}", "{'a': 1}"), ("{} {}", "{} {}"), ('"\\ud800"', '"\\ud800"')],
        *[('{"n": 1e999}', '{"n": 1e999}'), ('{"n": 123456789012345678901234567890}', {"n": 123456789012345678901234567890})],
    ]
    for text, read in cases:
        with subtests.test(text=text, read=read):
            assert read_arguments(text) == read


def test_truncated_arguments_of_many_quotes_are_handled_quickly(subtests: pytest.Subtests) -> None:
    for cut_off in ('\\"', "'", '"\\', "\\'"):
        with subtests.test(cut_off):
            text = '{"html": "' + cut_off * 45_000
            assert repair_arguments(text) == (text, "")  # quickly, although each quote might start a string


def test_arguments_of_any_depth_are_read_or_kept_as_text() -> None:
    assert read_arguments("[" * 100_000) == "[" * 100_000


def test_schema_always_has_object_type_and_properties() -> None:
    assert parameters(ToolSpec("now", "", {})) == {"type": "object", "properties": {}}
    assert parameters(ADD) == ADD.input_schema


def test_non_text_value_is_refused() -> None:
    assert words(ODD) == ODD
    for value in (None, 1, ["a"], {"a": 1}, b"a"):
        with pytest.raises(TypeError, match="expected a string"):
            words(value)


def test_picture_is_sent_as_a_url_or_described() -> None:
    assert data_url(PNG) == URL
    assert words_for(PNG) == "[image/png, 15 bytes, left out: this model does not accept pictures]"
    assert in_words([Text("a"), PNG, Text(""), Thinking("x"), Text("b")]) == f"a\n{words_for(PNG)}\nb"
    assert in_words([Text("a"), PNG, TIFF], sees=True) == f"a\n{replacement_text(TIFF, sees=True)}"


def test_pictures_of_four_kinds_are_sent(subtests: pytest.Subtests) -> None:
    for kind in ["image/png", "image/jpeg", "image/gif", "image/webp"]:
        with subtests.test(kind):
            assert replacement_text(Image(kind, b"x"), sees=True) is None
            assert replacement_text(Image(kind, b"x"), sees=False) == words_for(Image(kind, b"x"))


def test_unsupported_picture_is_described_with_the_reason() -> None:
    assert replacement_text(TIFF, sees=True) == "[image/tiff, 3 bytes, left out: models do not accept this type of picture]"
    assert replacement_text(NO_DATA, sees=True) == "[image/png, 0 bytes, left out: it is empty]"


def test_invalid_count_is_unknown(subtests: pytest.Subtests) -> None:
    for value in NO_COUNTS:
        with subtests.test(value=value):
            assert count(value) is None
            assert [count(0), count(7), count(10**9)] == [0, 7, 10**9]


def test_non_object_value_is_read_as_an_empty_object() -> None:
    assert object_of({"a": 1}) == {"a": 1}
    assert [object_of(value) for value in (None, [1], "a", 5)] == [{}] * 4


def test_only_the_incomplete_last_call_of_truncated_replies_is_dropped() -> None:
    whole, half, bare = ToolCall("f", {"a": 1}, "1"), ToolCall("g", '{"a', "2"), ToolCall("h", {}, "3")
    for ended in (False, True):
        assert without_half_call([Text("a"), whole], ended=ended) == ((Text("a"), whole), {})
        assert without_half_call([Text("a"), half], ended=ended) == ((Text("a"),), {"cut_call": "g"})
        assert without_half_call([half, whole], ended=ended) == ((half, whole), {})
        assert without_half_call([half, Text("a")], ended=ended) == ((half, Text("a")), {})
        assert without_half_call([], ended=ended) == ((), {})
    assert without_half_call([bare], ended=False) == ((), {"cut_call": "h"})
    assert without_half_call([whole, bare], ended=True) == ((whole, bare), {})


def test_only_trailing_thinking_is_omitted() -> None:
    thought, word = {"type": "thinking"}, {"type": "text"}
    assert without_last_thoughts([thought, word, thought, thought], ("thinking",)) == [thought, word]
    assert without_last_thoughts([thought], ("thinking",)) == []


def test_reply_with_invalid_name_or_number_types_is_refused(subtests: pytest.Subtests) -> None:
    cases = [
        Reply(Message("assistant", (ToolCall(None, {}),))),  # type: ignore[arg-type]
        Reply(Message("assistant", (ToolCall("f", {}, 7),))),  # type: ignore[arg-type]
        Reply(Message("assistant"), Usage(input="many")),  # type: ignore[arg-type]
        Reply(Message("assistant"), stop_reason={"why": 1}),  # type: ignore[arg-type]
    ]
    for reply in cases:
        with subtests.test(reply=reply):
            with pytest.raises(ValueError, match="Expected"):
                sanitize_reply(reply)


def test_valid_reply_is_unchanged_by_checking() -> None:
    parts = (Thinking("t", {"x": {"y": [1]}}), Text(ODD), ToolCall("f", "{", "1"), ToolCall("g", {"a": [None, 1.5]}))
    reply = Reply(Message("assistant", parts), Usage(input=1), "stop", {"id": "x"})
    assert sanitize_reply(reply) == reply


def test_omitted_messages_leave_no_stray_comma() -> None:
    assert join_fragments([b"", b"1", b"", b"2", b""]) == b"1,2"


@given(TEXTS)
def test_any_text_survives_json_encoding(text: str) -> None:
    assert json.loads(encode(text)) == text


def test_incomplete_call_beside_complete_ones_is_kept_for_refusal() -> None:
    whole, half, bare = ToolCall("f", {"a": 1}, "1"), ToolCall("g", '{"a', "2"), ToolCall("h", {}, "3")
    assert without_half_call([whole, half], ended=False) == ((whole, half), {"cut_call": "g"})
    assert without_half_call([whole, bare], ended=False) == ((whole, ToolCall("h", "", "3")), {"cut_call": "h"})
