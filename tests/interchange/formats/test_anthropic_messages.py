"""Anthropic's Messages API: messages of text and blocks, requests and responses are read completely."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import pytest
from trace_documents import document, lines

from agentnb import load_trace, load_traces, tables
from agentnb.core.usage import Usage
from agentnb.errors import TraceError

ASKS = {"role": "user", "content": "How high?"}
THINKS = {"type": "thinking", "thinking": "Hm.", "signature": "sig"}
CALLS = {"role": "assistant", "content": [THINKS, {"type": "tool_use", "id": "c1", "name": "look", "input": {"at": "tower"}}]}
RETURNS = {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c1", "content": "7 m"}]}
SAYS = {"role": "assistant", "content": "It is 7 m."}
TALK = [ASKS, CALLS, RETURNS, SAYS]
READ = ["user: How high?", "assistant: (Hm.)", 'assistant: look {"at": "tower"}', "tool: -> 7 m", "assistant: It is 7 m."]


def answer(*content: Any, stop: str = "end_turn", **more: Any) -> dict[str, Any]:
    return {
        "type": "message",
        "id": "msg",
        "role": "assistant",
        "model": "claude-x",
        "content": [*content],
        "stop_reason": stop,
        **more,
    }


def test_every_file_layout_yields_the_same_conversation(tmp_path: Path, subtests: pytest.Subtests) -> None:
    request = {"model": "claude-x", "system": "Be brief.", "messages": [ASKS]}
    text = {"type": "text", "text": "It is 7 m."}
    marked = {**ASKS, "content": [{"type": "text", "text": "How high?", "cache_control": {"type": "ephemeral"}}]}
    calls = {"request": request, "response": answer(*CALLS["content"], stop="tool_use")}
    ends = {"request": {**request, "messages": [marked, CALLS, RETURNS]}, "response": answer(text)}
    for name, value in {
        "messages.json": TALK,
        "a request.json": {**request, "messages": TALK},
        "system as blocks.json": {**request, "system": [{"type": "text", "text": "Be brief."}], "messages": TALK},
        "an exchange.json": ends,
        "exchanges whose cache mark moves.json": [calls, ends],
        "lines of exchanges.jsonl": [calls, ends],
        "a message a line.jsonl": TALK,
        "a batch.json": {
            "custom_id": "a",
            "params": {**request, "messages": TALK[:3]},
            "result": {"type": "succeeded", "message": answer(text)},
        },
    }.items():
        with subtests.test(name):
            run = load_trace(document(tmp_path, value, name))
            has_end = "exchange" in name or "batch" in name
            assert lines(run) == READ and run.status == ("completed" if has_end else "unknown")
            assert run.origin is not None and run.origin.format == "anthropic_messages"
            assert run.system == ("" if "message" in name else "Be brief.")


def test_usage_counts_cache_reads_and_writes_as_sent(tmp_path: Path) -> None:
    usage = {"input_tokens": 5, "cache_read_input_tokens": 100, "cache_creation_input_tokens": 20, "output_tokens": 7}
    run = load_trace(
        document(
            tmp_path,
            {
                "request": {"model": "claude-x", "messages": [ASKS]},
                "response": answer({"type": "text", "text": "7"}, usage=usage),
            },
        )
    )
    assert run.usage == Usage(125, 7, cache_read=100, cache_write=20)
    assert (run.model, run.rounds[0].stop_reason, run.stop_reason) == ("claude-x", "end_turn", "natural")


def test_content_blocks_of_every_kind_are_kept(tmp_path: Path) -> None:
    data = base64.b64encode(b"12345").decode()
    image = {"type": "image", "source": {"type": "base64", "media_type": "image/jpeg", "data": data}}
    asks = [
        {"type": "text", "text": "See"},
        image,
        {"type": "image", "source": {"type": "url", "url": "https://example.org/a.png"}},
        {"type": "document", "title": "A", "source": {"type": "base64", "media_type": "application/pdf", "data": data}},
        {"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "Plain."}},
        {"type": "search_result", "title": "S", "source": "x", "content": [{"type": "text", "text": "Found."}]},
    ]
    calls = [{"type": "redacted_thinking", "data": "zzz"}, {"type": "text", "text": "I look."}, *CALLS["content"][1:]]
    results = [
        {"type": "tool_result", "tool_use_id": "c1", "is_error": True, "content": [{"type": "text", "text": "no"}, image]},
        {"type": "text", "text": "Go on."},
    ]
    run = load_trace(
        document(
            tmp_path,
            [{"role": "user", "content": asks}, {"role": "assistant", "content": calls}, {"role": "user", "content": results}],
        )
    )
    assert lines(run) == [
        "user: See",
        "user: <image/jpeg 5>",
        "user: [picture: https://example.org/a.png]",
        "user: [document: A]",
        "user: Plain.",
        "user: Found.",
        "assistant: ()",
        "assistant: I look.",
        'assistant: look {"at": "tower"}',
        "tool: ! -> no <image/jpeg 5>",
        "user: Go on.",
    ]
    assert not run.pending
    assert run.messages[1].parts[0].provider_metadata == {"anthropic": {"type": "redacted_thinking", "data": "zzz"}}  # type: ignore[union-attr]


def test_server_tool_results_stay_within_the_reply(tmp_path: Path) -> None:
    content = [
        {"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {"query": "tower"}},
        {
            "type": "web_search_tool_result",
            "tool_use_id": "s1",
            "content": [{"type": "web_search_result", "title": "T", "url": "https://example.org", "encrypted_content": "zzz"}],
        },
        {"type": "mcp_tool_use", "id": "m1", "name": "ask", "server_name": "wiki", "input": {}},
        {"type": "mcp_tool_result", "tool_use_id": "m1", "is_error": True, "content": [{"type": "text", "text": "gone"}]},
        {"type": "server_tool_use", "id": "s2", "name": "code_execution", "input": {"code": "1"}},
        {
            "type": "code_execution_tool_result",
            "tool_use_id": "s2",
            "content": {"type": "code_execution_result", "stdout": "1", "stderr": "", "return_code": 0},
        },
        {"type": "server_tool_use", "id": "s3", "name": "web_fetch", "input": {}},
        {
            "type": "web_fetch_tool_result",
            "tool_use_id": "s3",
            "content": {"type": "web_fetch_tool_result_error", "error_code": "max_uses_exceeded"},
        },
        {"type": "text", "text": "Done."},
    ]
    run = load_trace(document(tmp_path, {"request": {"model": "claude-x", "messages": [ASKS]}, "response": answer(*content)}))
    assert [line for line in lines(run) if line.startswith("tool")] == [
        "tool: -> T\nhttps://example.org",
        "tool: ! -> gone",
        "tool: -> 1",
        "tool: ! -> max_uses_exceeded",
    ]
    assert run.text == "Done." and run.status == "completed" and "zzz" not in str(run.messages)
    (one,) = run.rounds
    assert one.records[1].call.provider_metadata == {"server_side": {"type": "mcp_tool_use", "server_name": "wiki"}}
    assert run.is_answered and len(tables.usage(run)) == 1


def test_run_status_follows_from_the_last_reply(tmp_path: Path, subtests: pytest.Subtests) -> None:
    text = {"type": "text", "text": "7"}
    for stop, ended in {
        "end_turn": ("completed", "natural"),
        "max_tokens": ("failed", "reply_cut"),
        "refusal": ("stopped", "refusal"),
        "pause_turn": ("unknown", None),
    }.items():
        with subtests.test(stop):
            run = load_trace(
                document(tmp_path, {"request": {"model": "claude-x", "messages": [ASKS]}, "response": answer(text, stop=stop)})
            )
            assert (run.status, run.stop_reason) == ended
    failed = {
        "request": {"model": "claude-x", "messages": [ASKS]},
        "response": {"type": "error", "error": {"type": "overloaded_error", "message": "Busy"}},
    }
    run = load_trace(document(tmp_path, failed))
    assert (run.status, str(run.error)) == ("failed", "overloaded_error: Busy")


def test_damaged_parts_are_omitted_and_reported(tmp_path: Path) -> None:
    broken = [{"system": "S", "messages": TALK}, 7, {"system": "S", "messages": [ASKS, {"role": "assistant", "content": [7]}]}]
    runs = load_traces(document(tmp_path, broken, "a.jsonl"), strict=False)
    assert [run.text for run in runs] == ["It is 7 m."] and [problem.position for problem in runs.problems] == [
        "line 2",
        "line 3",
    ]
    with pytest.raises(TraceError, match="line 2"):
        load_traces(tmp_path / "a.jsonl")
