"""Compaction decisions: due time, replaced messages, the summarizer's record, the summary."""

from __future__ import annotations

import pytest
from asserted_sentences import Snapshot
from hypothesis import given
from hypothesis import strategies as st
from made_histories import asks, orphans, results, rounds, whole_histories, words

from agentnb.context.compaction import (
    MAX_RECORD,
    WORDS,
    plain_summary,
    record_of,
    start_of_recent,
    summary_request,
    summary_text,
    why_due,
)
from agentnb.context.history_settings import AUTO, FULL, History, read_documented
from agentnb.core.messages import Image, Message, Text, Thinking, ToolCall, ToolResult
from agentnb.core.todos import Todo
from agentnb.models.estimate import tokens_of_message

HEADINGS = ["Original task", "Key decisions", "Files modified", "Current state", "Pending work", "Important context"]


# Due time


@pytest.mark.req("R2.32")
def test_documented_history_compacts_at_31_messages_not_30() -> None:
    history = read_documented()
    assert (history.compact_above, history.keep_recent, history.max_messages) == (30, 10, 40)
    assert why_due(history, 30, None, None) is None
    assert why_due(history, 31, None, None) == "messages"


@pytest.mark.req("R2.36")
def test_share_threshold_needs_a_known_window_and_token_count(subtests: pytest.Subtests) -> None:
    for history, tokens, window, why in [
        (AUTO, 8_000, 10_000, None),
        (AUTO, 8_001, 10_000, "share"),
        (History(share=0.5), 5_001, 10_000, "share"),
        (History(share=1), 10_000, 10_000, None),
        (AUTO, 10**9, None, None),
        (AUTO, None, 10_000, None),
        (FULL, 10**9, 10, None),
        (History(compact_above=30), 10**9, 10, None),
    ]:
        with subtests.test(history=history, tokens=tokens, window=window, why=why):
            assert why_due(history, 3, tokens, window) == why


# Replaced messages


@pytest.mark.req("R2.32")
def test_compaction_keeps_the_first_and_last_ten_messages() -> None:
    messages = [words("user")] + [words("assistant" if place % 2 == 0 else "user") for place in range(30)]
    assert start_of_recent(messages, 10, None) == 21


@pytest.mark.req("R2.35")
def test_result_at_the_boundary_keeps_its_call() -> None:
    messages = [words("user"), *rounds(15)]
    assert start_of_recent(messages, 10, None) == 21
    assert start_of_recent(messages, 9, None) == 21
    assert messages[21].calls


@pytest.mark.req("R2.35")
@given(whole_histories(), st.integers(1, 8), st.none() | st.integers(0, 200))
def test_no_result_is_kept_without_its_call(messages: list[Message], keep: int, most: int | None) -> None:
    start = start_of_recent(messages, keep, most)
    if start is None:
        assert len(messages) <= max(keep, 2) + 2
        return
    assert 2 <= start <= len(messages) - 1
    assert orphans(messages[start:]) == set()
    if most is None:
        assert len(messages) - start <= keep + 1


@pytest.mark.req("R2.36")
def test_fewer_recent_messages_are_kept_if_too_long() -> None:
    messages = [words("user"), *rounds(10)]
    pair = tokens_of_message(messages[1]) + tokens_of_message(messages[2])
    assert start_of_recent(messages, 10, 2 * pair) == 17
    assert start_of_recent(messages, 10, 0) == 19


@pytest.mark.parametrize("messages", [[words("user")], [words("user"), *rounds(1)], [words("user"), words("assistant")]])
def test_short_conversation_has_nothing_to_compact(messages: list[Message]) -> None:
    assert start_of_recent(messages, 1, 0) is None


# The record for the summarizer


@pytest.mark.req("R2.33", "R2.34")
def test_summary_is_requested_without_tools_under_six_headings() -> None:
    request = summary_request(rounds(2))
    assert request.tools == ()
    places = [request.system.index(f"## {heading}") for heading in HEADINGS]
    assert places == sorted(places) and request.system.count("## ") == len(HEADINGS)
    assert [message.role for message in request.messages] == ["user"]


@pytest.mark.req("R2.34")
@pytest.mark.parametrize(("length", "cut"), [(500, False), (501, True), (10_000, True)])
def test_summarizer_sees_500_characters_of_a_result(length: int, cut: bool) -> None:
    record = record_of([asks("a"), results("a", text="x" * length)])
    assert record.count("x" * 500) == 1
    assert ("x" * 501 in record, f"{length - 500:,} more characters" in record) == (False, cut)


def test_summarized_record_shows_authors_order_and_failures(snapshot: Snapshot) -> None:
    failed = ToolResult("a", "look", (Text("no such row"),), is_error=True)
    picture = Message("user", (Image("image/png", b"x"), Text("See.")))
    thinking = Message("assistant", (Thinking("hm"), Text("I look."), ToolCall("look", {"n": 1}, "a")))
    record = record_of([picture, thinking, Message("tool", (failed, ToolResult("b", "draw", (Image("image/png", b"x"),))))])
    assert record.splitlines()[1:-1:2] == snapshot
    assert "hm" not in record


def test_long_texts_and_huge_records_are_truncated() -> None:
    assert "y" * (WORDS + 1) not in record_of([words("assistant", "y" * 10_000)])
    assert "z" * 600 not in record_of([Message("assistant", (ToolCall("write", {"text": "z" * 5_000}, "a"),))])
    huge = record_of([words("user", "a" * WORDS)] * 200)
    assert MAX_RECORD < len(huge) < MAX_RECORD + 200 and "characters left out" in huge


@pytest.mark.req("R2.35")
def test_previous_summary_is_included_in_full() -> None:
    earlier = summary_text("\n".join(f"- fact {number}" for number in range(2_000)), 20, ())
    assert len(earlier) > 3 * WORDS
    for message in (words("assistant", earlier), words("user", f"go\n\n{earlier}")):
        assert earlier in record_of([message, words("user", "y" * 10_000)], earlier)
        assert earlier in summary_request([message], earlier).messages[0].text
    assert "y" * (WORDS + 1) not in record_of([words("user", "y" * 10_000)], earlier)


# The summary


@pytest.mark.req("R2.34")
@pytest.mark.parametrize(("count", "noun"), [(1, "message"), (2, "messages"), (1_000, "messages")])
def test_summary_starts_with_its_purpose_and_message_count(count: int, noun: str) -> None:
    assert summary_text(" It is half done. \n", count, ()) == (
        f"[Conversation Summary - {count} {noun} compacted]\n\nIt is half done."
    )


@pytest.mark.req("R2.35")
def test_summary_lists_todos_only_while_some_are_open() -> None:
    todos = (Todo(1, "Read", "completed"), Todo(2, "Count", "in-progress"), Todo(3, "Write", "not-started"))
    text = summary_text("Well.", 4, todos)
    for todo in todos:
        assert todo.title in text and todo.status in text
    assert summary_text("Well.", 4, todos[:1]).endswith("Well.")


def test_lone_surrogate_in_a_summary_can_be_sent() -> None:
    summary_text("half \ud83d", 1, ()).encode()


@pytest.mark.req("R2.33")
def test_summary_without_a_model_has_the_same_headings() -> None:
    messages = [
        words("assistant", "I take the first."),
        Message("assistant", (ToolCall("save", {"path": "a.csv", "n": 1}, "a"), ToolCall("save", {"path": "a.csv"}, "b"))),
        results("a", "b", text="saved\nand well"),
        words("assistant", "The first is saved."),
    ]
    text = plain_summary(messages, "Save both.")
    assert [line[3:] for line in text.splitlines() if line.startswith("## ")] == HEADINGS
    sections = dict(zip(HEADINGS, [part.partition("\n")[2].strip() for part in text.split("## ")[1:]], strict=True))
    assert sections["Original task"] == "- Save both."
    assert sections["Key decisions"] == "- I take the first."
    assert sections["Files modified"] == "- a.csv"
    assert sections["Current state"] == "- The first is saved."
    assert sections["Pending work"] == "None"
    assert "saved and well" in sections["Important context"]
