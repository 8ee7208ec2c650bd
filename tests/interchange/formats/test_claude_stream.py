"""Output of Claude Code in print mode: lines of stream-json, and lone results."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from benchmark_files import recorded, results
from session_files import FILES, lines_of, write_lines

from agentnb import load_trace, load_traces
from agentnb.context.request_history import sent_request
from agentnb.core.messages import Text, Thinking

STREAM = FILES / "claude_stream" / "max_turns.jsonl"


def test_lines_of_a_message_merge_and_sub_agents_become_runs() -> None:
    run, nested = load_traces(STREAM)
    assert len(run.rounds) == 2 and nested.parent_id == run.id and nested.agent == "general-purpose"
    reply = next(message for message in run.messages if message.role == "assistant")
    assert reply.parts[:2] == (Thinking("I run them."), Text("I run the tests."))
    assert [call.name for call in reply.calls] == ["Bash"]
    assert results(run) == [("1 failed", "tool_error"), ("It compares 1 to 2.", None)]
    assert (nested.prompt, nested.text, len(nested.rounds)) == ("Read the test.", "It compares 1 to 2.", 2)
    assert (run.prompt, run.model, run.id) == ("Why do the tests fail?", "claude-x", "5a4fc6c2-3b1e-4f0a-9a55-3d7f0f8f9a10")
    assert [tool.name for tool in run.tools] == ["Task", "Bash", "Read"]


def test_result_has_status_duration_and_cost_of_the_run(tmp_path: Path, subtests: pytest.Subtests) -> None:
    run = load_traces(STREAM)[0]
    assert (run.status, run.stop_reason, run.seconds) == ("limited", "max_rounds", 8.5)
    assert recorded(run)["total_cost_usd"] == 0.0421
    cases: dict[str, tuple[dict[str, Any], tuple[str, str | None]]] = {
        "done": ({"subtype": "success", "is_error": False, "result": "Yes."}, ("completed", "natural")),
        "money": ({"subtype": "error_max_budget_usd", "is_error": True}, ("limited", "budget")),
        "error": ({"subtype": "error_during_execution", "is_error": True}, ("failed", "error")),
        "api": ({"subtype": "success", "is_error": True, "result": "API Error: 529"}, ("failed", "error")),
    }
    *lines, last = lines_of(STREAM)
    for name, (fields, ended) in cases.items():
        with subtests.test(name):
            run = load_traces(write_lines(tmp_path / f"{name}.jsonl", [*lines, {**last, **fields}]))[0]
            assert (run.status, run.stop_reason) == ended
    assert load_traces(write_lines(tmp_path / "cut.jsonl", lines))[0].status == "interrupted"


def test_lone_result_is_the_reply_and_json_lists_are_accepted(tmp_path: Path) -> None:
    run = load_trace(FILES / "claude_stream" / "result_alone.json")
    assert (run.text, run.status, run.usage.cost, len(run.rounds)) == ("Paris.", "completed", 0.0021, 1)
    (tmp_path / "verbose.json").write_text(json.dumps(lines_of(STREAM)))
    assert [run.id for run in load_traces(tmp_path / "verbose.json")] == [run.id for run in load_traces(STREAM)]


def test_text_after_a_compaction_is_read_as_its_summary(tmp_path: Path) -> None:
    first, *rest = lines_of(STREAM)
    session = {"session_id": first["session_id"], "parent_tool_use_id": None, "uuid": "x"}
    boundary = {"type": "system", "subtype": "compact_boundary", "compact_metadata": {"trigger": "auto", "pre_tokens": 9}}
    told = [
        {"type": "user", "isSynthetic": True, "message": {"role": "user", "content": text}} for text in ("So far: ...", "Hook.")
    ]
    lines = [first, *rest[:6], boundary | session, *[one | session for one in told], *rest[6:]]
    run = load_traces(write_lines(tmp_path / "compacted.jsonl", lines))[0]
    assert [message.text for message in sent_request(run, 1).request.messages] == ["So far: ...\n\nHook."]
    assert recorded(run)["compactions"] == [{"trigger": "auto", "tokens_before": 9, "after_rounds": 1}]
    assert [(message.author, message.text) for message in run.messages if message.role == "user"][1:] == [
        ("claude-code", "Hook.")
    ]


def test_partial_messages_and_notices_are_omitted(tmp_path: Path) -> None:
    part = {"type": "stream_event", "event": {"type": "content_block_delta"}, "session_id": "5a4f", "uuid": "x"}
    first, *rest = lines_of(STREAM)
    runs = load_traces(write_lines(tmp_path / "parts.jsonl", [first, part, *rest]))
    assert len(runs) == 2 and not runs.problems
