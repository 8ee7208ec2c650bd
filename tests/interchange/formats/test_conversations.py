"""Exchanges become conversations: continuation, new beginnings, and the number kept open."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from trace_documents import document

from agentnb import load_traces
from agentnb.interchange.archives import trace_file
from agentnb.interchange.formats import conversations, openai_chat


def user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


def assistant(text: str) -> dict[str, Any]:
    return {"role": "assistant", "content": text}


def exchange(*messages: Any, reply: str) -> dict[str, Any]:
    choice = {"message": assistant(reply), "finish_reason": "stop"}
    return {"request": {"messages": [*messages]}, "response": {"choices": [choice]}}


def texts(path: Path) -> list[list[str]]:
    return [[round_.text for round_ in run.rounds] for run in load_traces(path)]


def test_request_continues_the_conversation_whose_reply_it_contains(tmp_path: Path) -> None:
    same = exchange(user("q"), reply="one"), exchange(user("q"), reply="two")
    more = exchange(user("q"), assistant("two"), user("more"), reply="three")
    assert texts(document(tmp_path, [*same, more])) == [["one"], ["two", "three"]]
    edited = exchange(user("q"), assistant("something else"), user("more"), reply="three")
    assert texts(document(tmp_path, [same[0], edited])) == [["one"], ["something else", "three"]]
    unanswered = exchange(user("q"), user("more"), reply="three")
    assert texts(document(tmp_path, [same[0], unanswered])) == [["one"], ["three"]]


def test_growing_conversation_without_responses_is_one_run(tmp_path: Path) -> None:
    grows = [
        {"messages": [user("q")]},
        {"messages": [user("q"), assistant("one"), user("more")]},
        {"messages": [user("q"), assistant("one"), user("more"), assistant("two")]},
    ]
    assert texts(document(tmp_path, grows)) == [["one", "two"]]
    assert texts(document(tmp_path, [grows[2], grows[2]])) == [["one", "two"]] * 2


def test_idle_conversations_are_evicted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(conversations, "MAX_OPEN_CONVERSATIONS", 2)
    told = [exchange(user(name), reply="one") for name in "abc"]
    late = exchange(user("a"), assistant("one"), user("more"), reply="two")
    path = document(tmp_path, [*told, late], "a.jsonl")
    assert texts(path) == [["one"], ["one"], ["one"], ["one", "two"]]
    early = document(tmp_path, [told[0], told[1], late, told[2]], "b.jsonl")
    assert sorted(texts(early)) == [["one"], ["one"], ["one", "two"]]


def test_complete_records_are_yielded_before_reading_further(tmp_path: Path) -> None:
    path = document(
        tmp_path, [{"messages": [user("q"), assistant("one")]}, {"messages": [user("r"), assistant("two")]}], "a.jsonl"
    )
    with path.open("a", encoding="utf-8") as file:
        file.write("{broken\n")
    runs = openai_chat.read(trace_file(path))
    assert [next(runs).text, next(runs).text] == ["one", "two"]
