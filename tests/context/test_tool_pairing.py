"""Tool pairing: each call is answered once in the next message, for any history."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from made_histories import ANY_HISTORY, asks, orphans, results, results_in, words
from run_builder import run_of

from agentnb.context.request_builder import RequestBuilder
from agentnb.context.tool_pairing import LOST, answers, are_whole
from agentnb.core.messages import Message, Text, ToolCall, ToolResult

CALLS = [ToolCall("look", {}, "a"), ToolCall("look", {}, "b")]


def prepared(messages: list[Message]) -> list[Message]:
    run = run_of(history=tuple(messages))
    return list(RequestBuilder("", (), {}).request(run).messages)


@pytest.mark.req("R0.28")
def test_complete_results_are_returned_unchanged() -> None:
    message = results("a", "b")
    assert answers(CALLS, message) is message
    plain = words("user")
    assert answers([], plain) is not None and answers([], plain).parts == plain.parts


@pytest.mark.req("R0.28", "KX.11")
def test_missing_result_becomes_an_error() -> None:
    answer = answers(CALLS, results("b"))
    assert [part.call_id for part in answer.parts if isinstance(part, ToolResult)] == ["a", "b"]
    lost, seen = answer.parts
    assert isinstance(lost, ToolResult) and isinstance(seen, ToolResult)
    assert (lost.is_error, lost.error_code, lost.text) == (True, "lost", LOST)
    assert not seen.is_error
    assert [part.call_id for part in answers(CALLS, None).parts] == ["a", "b"]  # type: ignore[union-attr]


@pytest.mark.req("R0.28", "KX.11")
def test_stray_and_duplicate_results_are_omitted() -> None:
    first, second = ToolResult("a", "look", (Text("one"),)), ToolResult("a", "look", (Text("two"),))
    stray = ToolResult("z", "look", (Text("stray"),))
    answer = answers(CALLS[:1], Message("tool", (stray, first, second, Text("And you?"))))
    assert answer == Message("tool", (first, Text("And you?")))
    assert answers([], Message("tool", (stray, Text("And you?")))) == Message("user", (Text("And you?"),))


@pytest.mark.req("R0.25", "R0.28", "KX.11")
@given(ANY_HISTORY)
def test_prepared_history_is_paired_alternating_and_idempotent(
    history: list[Message],
) -> None:
    once = prepared([words("user", "first"), *history])
    assert are_whole(once)
    assert all((one.role == "assistant") != (other.role == "assistant") for one, other in pairwise(once))
    assert all(message.parts for message in once)
    assert orphans(once) == set()
    assert once[-1].role != "assistant"
    assert prepared(once[:-1])[: len(once) - 1] == once[:-1]


@pytest.mark.req("R0.26", "R0.27", "R0.28")
@given(ANY_HISTORY)
def test_no_calls_or_matching_results_are_lost(history: list[Message]) -> None:
    whole = [words("user", "first"), *history]
    once = prepared(whole)
    assert [call.id for one in once for call in one.calls] == [call.id for one in whole for call in one.calls]
    open_calls: set[str] = set()
    matched = 0
    for message in whole:
        if message.role != "assistant":
            matched += len(set(results_in([message])) & open_calls)
            open_calls = set()
        else:
            open_calls |= {call.id for call in message.calls}
    real = [part for one in once for part in one.parts if isinstance(part, ToolResult) and part.error_code != "lost"]
    assert len(real) >= min(matched, len(real)) and all(part.text == "seen" for part in real)


@pytest.mark.req("R0.26")
def test_consecutive_replies_are_merged_with_all_calls() -> None:
    messages = prepared([words("user"), asks("a", text="One."), asks("b", text="Two."), results("a", "b")])
    assert [message.role for message in messages] == ["user", "assistant", "tool"]
    assert [call.id for call in messages[1].calls] == ["a", "b"]
    assert results_in(messages) == ["a", "b"]
    said = prepared([words("user", "One."), words("user", "Two."), words("assistant", "Three.")])
    assert said[0].text == "One.\n\nTwo."


@pytest.mark.req("R0.27")
def test_reply_with_calls_but_no_text_is_kept() -> None:
    messages = prepared([words("user"), asks("a", text=" "), results("a")])
    assert [type(part) for part in messages[1].parts] == [ToolCall]


@pytest.mark.req("R0.28", "KX.11")
def test_unanswered_final_calls_get_results_before_the_prompt() -> None:
    messages = prepared([words("user"), asks("a", "b")])
    assert results_in(messages[-1:]) == ["a", "b"] and messages[-1].text == "go"
    run = run_of(history=(words("user"), words("assistant"), words("user")))
    assert RequestBuilder("", (), {}).request(run).messages[-1].text == "Well.\n\ngo"
