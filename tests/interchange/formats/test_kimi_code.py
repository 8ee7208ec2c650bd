"""Sessions of Kimi Code."""

from __future__ import annotations

from pathlib import Path

from benchmark_files import recorded, results
from session_files import FILES, lines_of, write_lines

from agentnb import load_trace, load_traces
from agentnb.context.request_history import sent_request
from agentnb.core.messages import Text, Thinking

WIRE = FILES / "kimi_code" / "wire.jsonl"


def test_step_becomes_a_reply_and_duplicate_prompts_are_merged() -> None:
    run = load_trace(WIRE)
    assert [(message.author, message.text) for message in run.messages if message.role == "user"] == [
        ("", "Fix the login."),
        ("injection", "<system-reminder>Be brief.</system-reminder>"),
    ]
    replies = [message for message in run.messages if message.role == "assistant"]
    assert replies[0].parts[0] == Thinking("I look first.") and replies[1].parts == (Text("It is empty."),)
    assert [(call.name, call.arguments) for call in replies[0].calls] == [
        ("Read", {"path": "login.rs"}),
        ("Read", {"path": "nothing.rs"}),
    ]
    assert results(run) == [("fn login() {}", None), ("no such file", "tool_error")]
    assert (run.model, run.system, run.status, run.stop_reason) == (
        "kimi-code/kimi-for-coding",
        "You are Kimi Code CLI.",
        "completed",
        "natural",
    )
    usage = run.rounds[0].usage
    assert usage is not None and (usage.input, usage.output, usage.cache_read, usage.cache_write) == (20, 7, 3, 2)
    assert run.started_at is not None and run.started_at.year == 2026


def test_compaction_replaces_earlier_messages_in_later_requests() -> None:
    run = load_trace(WIRE)
    assert [message.text for message in sent_request(run, 1).request.messages] == ["login.rs was read."]
    assert recorded(run)["compactions"] == [{"tokens_before": 900, "tokens_after": 100}]


def test_context_messages_and_the_name_of_another_agent_are_read(tmp_path: Path) -> None:
    call = {"type": "function", "id": "t1", "function": {"name": "Read", "arguments": '{"path": "a"}'}}
    messages = [
        {"role": "user", "content": [{"type": "text", "text": "Read a."}]},
        {"role": "assistant", "content": [], "toolCalls": [call]},
        {"role": "tool", "content": [{"type": "text", "text": "b"}], "toolCallId": "t1"},
        {"role": "assistant", "content": "It is b."},
    ]
    records = [{"type": "context.append_message", "agentId": "agent-3", "message": message, "time": 1} for message in messages]
    run = load_trace(write_lines(tmp_path / "wire.jsonl", records))
    assert (run.prompt, run.text, run.agent, results(run)) == ("Read a.", "It is b.", "agent-3", [("b", None)])


def test_incomplete_session_is_interrupted_and_damaged_lines_are_problems(tmp_path: Path) -> None:
    records = lines_of(WIRE)[:10]
    records.insert(7, {"type": "context.append_loop_event", "event": {"type": "content.part"}})
    runs = load_traces(write_lines(tmp_path / "wire.jsonl", records), strict=False)
    assert runs[0].status == "interrupted" and [problem.position for problem in runs.problems] == ["line 8"]
