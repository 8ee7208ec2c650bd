"""Truncation keeps the first and the newest messages, and no result without its call."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from made_histories import ANY_HISTORY, asks, orphans, results, rounds, whole_histories, words
from run_builder import a_round, called, run_of

from agentnb import Agent, TodoBoard
from agentnb.context import request_builder as conversation_module
from agentnb.context.history_settings import History
from agentnb.context.request_builder import RequestBuilder
from agentnb.context.tool_pairing import are_whole
from agentnb.context.truncation import truncate_messages
from agentnb.core.messages import Message
from agentnb.core.todos import Todo
from agentnb.detect.run import Run
from agentnb.models import ScriptedModel


def places(messages: list[Message], most: int) -> list[int]:
    """Return the positions of the kept messages."""
    return [next(place for place, one in enumerate(messages) if one is kept) for kept in truncate_messages(messages, most)]


@pytest.mark.req("R2.27", "R2.28")
def test_truncation_keeps_the_first_and_the_last_three() -> None:
    messages = [words("user", "go"), asks("a"), results("a"), asks("b"), results("b"), words("assistant")]
    assert places(messages, 4) == [0, 3, 4, 5]


@pytest.mark.req("R2.29")
@pytest.mark.parametrize("most", [5, 6, 40])
def test_short_message_list_is_returned_unchanged(most: int) -> None:
    messages = [words("user"), *rounds(2)]
    assert truncate_messages(messages, most) is messages


@pytest.mark.req("R2.27", "R2.29")
def test_kept_result_keeps_its_call() -> None:
    messages = [words("user"), *rounds(4)]
    assert places(messages, 4) == [0, 5, 6, 7, 8]
    assert places(messages, 5) == [0, 5, 6, 7, 8]
    assert places(messages, 2) == [0, 7, 8]


@pytest.mark.req("R2.29")
def test_calls_for_kept_results_in_between_are_kept() -> None:
    messages = [
        words("user"),
        words("assistant"),
        asks("far"),
        asks("near"),
        results("far"),
        asks("last"),
        results("near"),
        results("last"),
    ]
    assert places(messages, 3) == [0, 2, 3, 4, 5, 6, 7]


@pytest.mark.req("R2.30")
@given(ANY_HISTORY, st.integers(2, 12))
def test_truncation_keeps_first_message_and_suffix_and_is_idempotent(messages: list[Message], most: int) -> None:
    kept = truncate_messages(messages, most)
    start = len(messages) - len(kept) + 1
    assert kept[0] is messages[0]
    assert all(one is other for one, other in zip(kept[1:], messages[start:], strict=True))
    assert len(kept) >= min(most, len(messages))
    assert orphans(kept) <= orphans(messages)
    assert list(truncate_messages(kept, most)) == list(kept)
    if len(messages) <= most:
        assert kept is messages


@pytest.mark.req("R2.30")
@given(whole_histories(), st.integers(2, 12))
def test_truncation_keeps_complete_pairs_with_at_most_one_extra(messages: list[Message], most: int) -> None:
    kept = truncate_messages(messages, most)
    assert are_whole(kept)
    assert len(kept) <= max(most, 2) + 1


def a_run(count: int, **started: Any) -> Run:
    facts = [fact for index in range(count) for fact in a_round(index, called("look", f"c{index}"))]
    return run_of(*facts, **started)


def request_of(run: Run, most: int | None) -> list[Message]:
    return list(RequestBuilder("", (), {}, history=History(max_messages=most)).request(run).messages)


@pytest.mark.req("R2.27")
def test_request_is_truncated_but_the_run_keeps_all_messages() -> None:
    run = a_run(6)
    assert request_of(run, 5) == [run.messages[0], *run.messages[-4:]]
    assert len(run.messages) == 13
    assert len(request_of(run, None)) == 13


@pytest.mark.req("R0.25", "R2.27")
def test_second_message_is_merged_if_it_has_the_same_role() -> None:
    history = tuple(one for number in range(4) for one in (words("user", f"ask {number}"), words("assistant", f"say {number}")))
    kept = [("user", "ask 0\n\nask 3"), ("assistant", "say 3"), ("user", "go")]
    assert [(one.role, one.text) for one in request_of(run_of(history=history), 4)] == kept


@pytest.mark.req("K2.6")
def test_ephemeral_text_is_not_counted_and_comes_last() -> None:
    run = a_run(6)
    conversation = RequestBuilder("", (), {}, history=History(max_messages=13))
    request = conversation.request(run, "Mind the list.")
    assert len(request.messages) == 13 and conversation.truncated_by == 0
    conversation = RequestBuilder("", (), {}, history=History(max_messages=5))
    request = conversation.request(run, "Mind the list.")
    assert conversation.truncated_by == 8
    assert "Mind the list." in request.messages[-1].text and request.messages[0].text == "go"
    assert not any("Mind the list." in message.text for message in run.messages)


@pytest.mark.req("R2.31", "K2.4")
def test_full_history_is_sent_if_truncation_would_break_pairs(monkeypatch: pytest.MonkeyPatch) -> None:
    run = a_run(6)
    monkeypatch.setattr(conversation_module, "truncate_messages", lambda messages, most: [messages[0], *messages[-most:]][:-1])
    conversation = RequestBuilder("", (), {}, history=History(max_messages=3))
    assert list(conversation.request(run).messages) == list(run.messages)
    assert conversation.truncated_by == 0


@pytest.mark.req("R2.31")
def test_pairs_are_complete_if_results_match_the_previous_calls(subtests: pytest.Subtests) -> None:
    for messages, whole in [
        ([], True),
        ([words("user"), *rounds(2)], True),
        ([words("user"), asks("a", "b"), results("b", "a")], True),
        ([words("user"), results("a")], False),
        ([words("user"), asks("a")], False),
        ([words("user"), asks("a", "b"), results("a")], False),
        ([words("user"), asks("a"), words("user"), results("a")], False),
        ([words("user"), asks("a"), results("a"), results("a")], False),
    ]:
        with subtests.test(messages=messages, whole=whole):
            assert are_whole(messages) is whole


@pytest.mark.req("R2.30", "R0.62")
def test_carried_todos_appear_in_requests_of_runs_without_tools() -> None:
    board = TodoBoard(["Look at the data"])
    first = Agent(ScriptedModel(["Well."] * 9), todos=board, policy="minimal").run_sync("go")
    model = ScriptedModel(["Well."])
    Agent(model, todos=False, history=History(max_messages=2)).run_sync("And now?", continue_from=first)
    (request,) = model.requests
    assert len(request.messages) < len(first.messages) and "Look at the data" in request.messages[-1].text


def test_only_a_truncated_request_repeats_the_open_todos(subtests: pytest.Subtests) -> None:
    cases = {
        "open": (Todo(1, "Count the birds"), 5, True),
        "nothing was left out": (Todo(1, "Count the birds"), 13, False),
        "all is done": (Todo(1, "Count the birds", "completed"), 5, False),
    }
    for name, (todo, most, is_repeated) in cases.items():
        with subtests.test(name):
            last = request_of(a_run(6, todos=(todo,)), most)[-1].text
            assert ("Count the birds" in last) is is_repeated
