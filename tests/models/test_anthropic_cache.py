"""``anthropic:`` marks the stable beginning of a conversation for the provider's prompt cache."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any

import pytest
from wire_by_hand import ADD, ANTHROPIC, NOW, PNG, assistant, call, requests_of_a_run, result, results, sent, user

from agentnb.core.messages import Message, Text
from agentnb.core.request import Request, Sent
from agentnb.models.options import Options
from agentnb.testing.prompt_cache import PromptCache

MARK = {"type": "ephemeral"}


def marks(body: Any) -> list[tuple[Any, ...]]:
    """Return the positions of cache marks: tools, system prompt, or (message, block)."""
    found: list[tuple[Any, ...]] = [("tools", i) for i, tool in enumerate(body.get("tools", [])) if "cache_control" in tool]
    found += [("system", i) for i, block in enumerate(body.get("system", [])) if "cache_control" in block]
    for at, message in enumerate(body["messages"]):
        found += [(at, i) for i, block in enumerate(message["content"]) if "cache_control" in block]
    return found


def wire_of(request: Request, **options: Any) -> Any:
    return json.loads(ANTHROPIC.body("m", request, Options(**options)))


def test_system_prompt_and_last_lasting_block_have_cache_marks() -> None:
    for number, request in enumerate(requests_of_a_run()):
        body = wire_of(request)
        last = len(body["messages"]) - 1
        before = [(last - 2, len(body["messages"][last - 2]["content"]) - 1)] if number else []
        assert marks(body) == [("system", 0), *before, (last, len(body["messages"][last]["content"]) - 2)]


def test_each_request_repeats_the_last_mark_of_its_predecessor() -> None:
    """The next request looks up the cache entry of its predecessor."""
    bodies = [wire_of(request) for request in requests_of_a_run(8)]
    for before, after in pairwise(bodies):
        assert marks(before)[-1] in marks(after)
    assert all(len(marks(body)) <= 4 for body in bodies)


def test_each_request_reads_the_cache_of_its_predecessor(subtests: pytest.Subtests) -> None:
    """Also for a reply with more calls than the provider's lookback of blocks."""
    for rounds in [3, 30]:
        with subtests.test(rounds=rounds):
            cache = PromptCache()
            written = 0
            for request in requests_of_a_run(rounds, max_rounds=rounds + 1):
                count = cache.of_messages(wire_of(request))
                cache.keep(count)
                assert (count.usage.cache_read or 0) == written
                written += count.usage.cache_write or 0


def test_last_tool_is_marked_if_there_is_no_system_prompt() -> None:
    assert marks(sent(ANTHROPIC, tools=(ADD, NOW))) == [("tools", 1), (0, 0)]
    assert marks(sent(ANTHROPIC, tools=(ADD, NOW), system="Be.")) == [("system", 0), (0, 0)]
    assert marks(sent(ANTHROPIC)) == [(0, 0)]


def test_model_replies_are_never_marked() -> None:
    body = sent(ANTHROPIC, user("Go"), assistant(call(1)), results(result(1, "1")), assistant("Paused"), system="Be brief.")
    assert marks(body) == [("system", 0), (2, 0)]


def test_cache_mark_skips_a_blank_last_block() -> None:
    assert marks(sent(ANTHROPIC, user("Go", PNG, " "))) == [(0, 1)]


def test_reordered_results_keep_the_cache_mark_in_place() -> None:
    items = [user("Go"), assistant(call(1)), results("Said", result(1, "1"))]
    transient = Message("tool", (*items[-1].parts, Text("In passing")))
    body = wire_of(Request("", Sent(items, 3, transient, {})))
    assert [block["type"] for block in body["messages"][2]["content"]] == ["tool_result", "text", "text"]
    assert marks(body)[-1] == (2, 1)


def test_all_marks_have_the_requested_lifetime(subtests: pytest.Subtests) -> None:
    for cache, mark in [("5m", MARK), ("1h", {**MARK, "ttl": "1h"})]:
        with subtests.test(cache):
            body = sent(ANTHROPIC, user("Go"), assistant("1"), user("On"), system="Be.", cache=cache)
            assert body["system"][0]["cache_control"] == mark
            assert [body["messages"][at]["content"][0]["cache_control"] for at in (0, 2)] == [mark, mark]


def test_disabled_cache_sets_no_marks() -> None:
    assert [marks(wire_of(request, cache="no")) for request in requests_of_a_run()] == [[]] * 6


def test_continued_reply_keeps_the_marks(subtests: pytest.Subtests) -> None:
    for pauses in [1, 2, 5]:
        with subtests.test(pauses=pauses):
            for request in requests_of_a_run():
                before = after = wire_of(request)
                for number in range(pauses):
                    request = request.and_then(assistant(f"Paused {number}."))
                    after = wire_of(request)
                assert marks(after) == marks(before)
                assert after["messages"][: len(before["messages"])] == before["messages"], "the reminder too"
                assert len(after["messages"]) == len(before["messages"]) + pauses
