"""Simulated prompt caches: reported usage shows tests whether caching works."""

from __future__ import annotations

from typing import Any

from raw_http import MINIMAL, post

from agentnb.testing import LoopbackServer, Status
from agentnb.testing.prompt_cache import PromptCache

MARK = {"type": "ephemeral"}


def text(words: str, marked: bool = False) -> dict[str, Any]:
    return {"type": "text", "text": words * 10, **({"cache_control": MARK} if marked else {})}


def turn(*blocks: dict[str, Any], role: str = "user") -> dict[str, Any]:
    return {"role": role, "content": list(blocks)}


def body(*messages: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"model": "m", "max_tokens": 9, "system": [text("system", marked=True)], "messages": list(messages), **more}


def counted(cache: PromptCache, request: dict[str, Any]) -> tuple[int, int, int]:
    """Return tokens read, written, and uncached."""
    count = cache.of_messages(request)
    cache.keep(count)
    usage = count.usage
    assert usage.input is not None
    assert usage.cache_read is not None
    assert usage.cache_write is not None
    return usage.cache_read, usage.cache_write, usage.input - usage.cache_read - usage.cache_write


def test_requests_without_cache_markers_write_and_read_nothing() -> None:
    cache = PromptCache()
    plain = body(turn(text("a")), system="system")
    assert counted(cache, plain)[:2] == (0, 0)
    assert counted(cache, plain)[:2] == (0, 0)


def test_prefix_up_to_a_marker_is_written_once_then_read() -> None:
    cache = PromptCache()
    read, written, rest = counted(cache, body(turn(text("a", marked=True), text("b"))))
    assert read == 0
    assert written > 0
    assert rest > 0
    assert counted(cache, body(turn(text("a", marked=True), text("c")))) == (written, 0, rest)


def test_growing_conversation_reads_the_previous_cache() -> None:
    cache = PromptCache()
    first = [turn(text("a", marked=True))]
    _, written, _ = counted(cache, body(*first))
    grown = [turn(text("a")), turn(text("b"), role="assistant"), turn(text("c", marked=True))]
    read, more, rest = counted(cache, body(*grown))
    assert (read, rest) == (written, 0)
    assert more > 0


def test_change_at_the_beginning_invalidates_the_cache() -> None:
    cache = PromptCache()
    counted(cache, body(turn(text("a", marked=True))))
    assert counted(cache, body(turn(text("a", marked=True)), system=[text("other")]))[0] == 0
    assert counted(cache, body(turn(text("a", marked=True)), tools=[{"name": "t"}]))[0] == 0
    assert counted(cache, body(turn(text("a", marked=True)), model="n"))[0] == 0


def test_changed_tool_choice_keeps_only_the_cached_system_prompt() -> None:
    cache = PromptCache()
    _, written, _ = counted(cache, body(turn(text("a", marked=True))))
    read, _, _ = counted(cache, body(turn(text("a", marked=True)), tool_choice={"type": "any"}))
    assert 0 < read < written


def test_same_text_in_another_role_is_not_cached() -> None:
    cache = PromptCache()
    _, written, _ = counted(cache, body(turn(text("a", marked=True))))
    assert 0 < counted(cache, body(turn(text("a", marked=True), role="assistant")))[0] < written


def test_cache_treats_strings_as_blocks_and_ignores_turn_splits() -> None:
    cache = PromptCache()
    _, written, _ = counted(cache, body(turn({"type": "text", "text": "a"}, text("b", marked=True))))
    read, _, _ = counted(cache, body({"role": "user", "content": "a"}, turn(text("b", marked=True))))
    assert read == written


def test_cache_lookup_goes_back_twenty_blocks() -> None:
    for blocks, found in ((20, True), (21, False)):
        cache = PromptCache()
        start = turn(text("a", marked=True))
        _, written, _ = counted(cache, body(start, system=[]))
        later = [text(f"{number}") for number in range(blocks)]
        later[-1]["cache_control"] = MARK
        read, _, _ = counted(cache, body(turn(text("a")), turn(*later), system=[]))
        assert read == (written if found else 0)


def test_request_level_marker_applies_to_the_last_block() -> None:
    cache = PromptCache()
    _, written, rest = counted(cache, body(turn(text("a")), system=[], cache_control=MARK))
    assert rest == 0
    assert counted(cache, body(turn(text("a")), system=[], cache_control=MARK)) == (written, 0, 0)


def test_usage_splits_cache_counts_like_the_provider() -> None:
    marked = body(turn(text("a", marked=True), text("b")))
    with LoopbackServer(lambda _: "x") as server:
        first, second = (post(server, "messages", marked).body["usage"] for _ in range(2))
    assert first["cache_read_input_tokens"] == 0
    assert first["cache_creation_input_tokens"] == second["cache_read_input_tokens"] > 0
    assert second["cache_creation_input_tokens"] == 0
    assert first["input_tokens"] == second["input_tokens"] > 0


def test_unanswered_request_writes_no_cache() -> None:
    marked = body(turn(text("a", marked=True)))
    with LoopbackServer([Status(529), "x", "x"]) as server:
        post(server, "messages", marked)
        assert post(server, "messages", marked).body["usage"]["cache_read_input_tokens"] == 0
        assert post(server, "messages", marked).body["usage"]["cache_read_input_tokens"] > 0


def test_other_wires_cache_every_earlier_prefix() -> None:
    user = {"role": "user", "content": "Hello there"}
    for wire, field in (("chat", "messages"), ("responses", "input")):
        with LoopbackServer(lambda _: "x") as server:
            used = [post(server, wire, {**MINIMAL[wire], field: [user] * count}).body["usage"] for count in (1, 2, 2)]
        details = [usage.get("prompt_tokens_details") or usage.get("input_tokens_details") for usage in used]
        sent = [usage.get("prompt_tokens") or usage.get("input_tokens") for usage in used]
        assert [detail["cached_tokens"] for detail in details] == [0, sent[0], sent[1]]


def test_minimal_server_omits_usage_details() -> None:
    with LoopbackServer(["x"], minimal=True) as server:
        assert set(post(server, "chat").body["usage"]) == {"prompt_tokens", "completion_tokens", "total_tokens"}
