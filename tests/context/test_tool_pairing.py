"""Calls and results: each call is answered once, right behind it, whatever the history that comes in."""

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
def test_an_answer_that_fits_is_the_very_message() -> None:
    message = results("a", "b")
    assert answers(CALLS, message) is message
    plain = words("user")
    assert answers([], plain) is not None and answers([], plain).parts == plain.parts


@pytest.mark.req("R0.28", "KX.11")
def test_a_result_that_is_missing_is_said_to_be_lost_as_an_error() -> None:
    found = answers(CALLS, results("b"))
    assert [part.call_id for part in found.parts if isinstance(part, ToolResult)] == ["a", "b"]
    lost, seen = found.parts
    assert isinstance(lost, ToolResult) and isinstance(seen, ToolResult)
    assert (lost.is_error, lost.error_code, lost.text) == (True, "lost", LOST)
    assert not seen.is_error
    assert [part.call_id for part in answers(CALLS, None).parts] == ["a", "b"]  # type: ignore[union-attr]


@pytest.mark.req("R0.28", "KX.11")
def test_results_of_no_call_and_second_ones_are_left_out_and_words_beside_them_stay() -> None:
    first, second = ToolResult("a", "look", (Text("one"),)), ToolResult("a", "look", (Text("two"),))
    stray = ToolResult("z", "look", (Text("stray"),))
    found = answers(CALLS[:1], Message("tool", (stray, first, second, Text("And you?"))))
    assert found == Message("tool", (first, Text("And you?")))
    assert answers([], Message("tool", (stray, Text("And you?")))) == Message("user", (Text("And you?"),))


@pytest.mark.req("R0.25", "R0.28", "KX.11")
@given(ANY_HISTORY)
def test_for_any_history_each_call_is_answered_once_sides_alternate_and_preparing_twice_is_preparing_once(
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
def test_for_any_history_no_call_is_lost_and_no_result_that_answers_the_message_before(history: list[Message]) -> None:
    whole = [words("user", "first"), *history]
    once = prepared(whole)
    assert [call.id for one in once for call in one.calls] == [call.id for one in whole for call in one.calls]
    open_calls: set[str] = set()
    kept = 0
    for message in whole:
        if message.role != "assistant":
            kept += len(set(results_in([message])) & open_calls)
            open_calls = set()
        else:
            open_calls |= {call.id for call in message.calls}
    real = [part for one in once for part in one.parts if isinstance(part, ToolResult) and part.error_code != "lost"]
    assert len(real) >= min(kept, len(real)) and all(part.text == "seen" for part in real)


@pytest.mark.req("R0.26")
def test_two_replies_in_a_row_become_one_with_the_calls_of_both_and_texts_joined_by_a_blank_line() -> None:
    made = prepared([words("user"), asks("a", text="One."), asks("b", text="Two."), results("a", "b")])
    assert [message.role for message in made] == ["user", "assistant", "tool"]
    assert [call.id for call in made[1].calls] == ["a", "b"]
    assert results_in(made) == ["a", "b"]
    said = prepared([words("user", "One."), words("user", "Two."), words("assistant", "Three.")])
    assert said[0].text == "One.\n\nTwo."


@pytest.mark.req("R0.27")
def test_a_reply_without_words_is_kept_if_it_has_calls() -> None:
    made = prepared([words("user"), asks("a", text=" "), results("a")])
    assert [type(part) for part in made[1].parts] == [ToolCall]


@pytest.mark.req("R0.28", "KX.11")
def test_calls_at_the_very_end_of_a_history_are_answered_before_what_the_person_asks() -> None:
    made = prepared([words("user"), asks("a", "b")])
    assert results_in(made[-1:]) == ["a", "b"] and made[-1].text == "go"
    run = run_of(history=(words("user"), words("assistant"), words("user")))
    assert RequestBuilder("", (), {}).request(run).messages[-1].text == "Well.\n\ngo"
