"""What is told of prompt caches, so that a test can see whether they hold."""

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
    """Tokens read, written and neither."""
    count = cache.of_messages(request)
    cache.keep(count)
    usage = count.usage
    assert usage.input is not None
    assert usage.cache_read is not None
    assert usage.cache_write is not None
    return usage.cache_read, usage.cache_write, usage.input - usage.cache_read - usage.cache_write


def test_without_markers_nothing_is_written_or_read() -> None:
    cache = PromptCache()
    plain = body(turn(text("a")), system="system")
    assert counted(cache, plain)[:2] == (0, 0)
    assert counted(cache, plain)[:2] == (0, 0)


def test_the_beginning_up_to_a_marker_is_written_once_and_then_read() -> None:
    cache = PromptCache()
    read, written, rest = counted(cache, body(turn(text("a", marked=True), text("b"))))
    assert read == 0
    assert written > 0
    assert rest > 0
    assert counted(cache, body(turn(text("a", marked=True), text("c")))) == (written, 0, rest)


def test_a_conversation_that_grows_reads_what_the_last_request_wrote() -> None:
    cache = PromptCache()
    first = [turn(text("a", marked=True))]
    _, written, _ = counted(cache, body(*first))
    grown = [turn(text("a")), turn(text("b"), role="assistant"), turn(text("c", marked=True))]
    read, more, rest = counted(cache, body(*grown))
    assert (read, rest) == (written, 0)
    assert more > 0


def test_a_change_at_the_beginning_is_not_read() -> None:
    cache = PromptCache()
    counted(cache, body(turn(text("a", marked=True))))
    assert counted(cache, body(turn(text("a", marked=True)), system=[text("other")]))[0] == 0
    assert counted(cache, body(turn(text("a", marked=True)), tools=[{"name": "t"}]))[0] == 0
    assert counted(cache, body(turn(text("a", marked=True)), model="n"))[0] == 0


def test_another_choice_of_tools_keeps_the_system_prompt_only() -> None:
    cache = PromptCache()
    _, written, _ = counted(cache, body(turn(text("a", marked=True))))
    read, _, _ = counted(cache, body(turn(text("a", marked=True)), tool_choice={"type": "any"}))
    assert 0 < read < written


def test_the_same_words_of_somebody_else_are_not_the_same() -> None:
    cache = PromptCache()
    _, written, _ = counted(cache, body(turn(text("a", marked=True))))
    assert 0 < counted(cache, body(turn(text("a", marked=True), role="assistant")))[0] < written


def test_a_string_is_a_block_of_text_and_turns_may_be_split() -> None:
    cache = PromptCache()
    _, written, _ = counted(cache, body(turn({"type": "text", "text": "a"}, text("b", marked=True))))
    read, _, _ = counted(cache, body({"role": "user", "content": "a"}, turn(text("b", marked=True))))
    assert read == written


def test_it_looks_back_twenty_blocks_and_not_more() -> None:
    for blocks, found in ((20, True), (21, False)):
        cache = PromptCache()
        start = turn(text("a", marked=True))
        _, written, _ = counted(cache, body(start, system=[]))
        later = [text(f"{number}") for number in range(blocks)]
        later[-1]["cache_control"] = MARK
        read, _, _ = counted(cache, body(turn(text("a")), turn(*later), system=[]))
        assert read == (written if found else 0)


def test_a_marker_for_all_stands_at_the_last_block() -> None:
    cache = PromptCache()
    _, written, rest = counted(cache, body(turn(text("a")), system=[], cache_control=MARK))
    assert rest == 0
    assert counted(cache, body(turn(text("a")), system=[], cache_control=MARK)) == (written, 0, 0)


def test_the_numbers_stand_in_the_usage_as_the_provider_splits_them() -> None:
    marked = body(turn(text("a", marked=True), text("b")))
    with LoopbackServer(lambda _: "x") as server:
        first, second = (post(server, "messages", marked).body["usage"] for _ in range(2))
    assert first["cache_read_input_tokens"] == 0
    assert first["cache_creation_input_tokens"] == second["cache_read_input_tokens"] > 0
    assert second["cache_creation_input_tokens"] == 0
    assert first["input_tokens"] == second["input_tokens"] > 0


def test_a_request_that_was_not_answered_leaves_nothing() -> None:
    marked = body(turn(text("a", marked=True)))
    with LoopbackServer([Status(529), "x", "x"]) as server:
        post(server, "messages", marked)
        assert post(server, "messages", marked).body["usage"]["cache_read_input_tokens"] == 0
        assert post(server, "messages", marked).body["usage"]["cache_read_input_tokens"] > 0


def test_the_other_wires_read_every_beginning_that_was_there_before() -> None:
    user = {"role": "user", "content": "Hello there"}
    for wire, field in (("chat", "messages"), ("responses", "input")):
        with LoopbackServer(lambda _: "x") as server:
            used = [post(server, wire, {**MINIMAL[wire], field: [user] * count}).body["usage"] for count in (1, 2, 2)]
        details = [usage.get("prompt_tokens_details") or usage.get("input_tokens_details") for usage in used]
        sent = [usage.get("prompt_tokens") or usage.get("input_tokens") for usage in used]
        assert [detail["cached_tokens"] for detail in details] == [0, sent[0], sent[1]]


def test_a_minimal_server_tells_no_details() -> None:
    with LoopbackServer(["x"], minimal=True) as server:
        assert set(post(server, "chat").body["usage"]) == {"prompt_tokens", "completion_tokens", "total_tokens"}
