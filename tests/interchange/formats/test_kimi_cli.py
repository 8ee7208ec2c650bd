"""Sessions of the Kimi CLI."""

from __future__ import annotations

from pathlib import Path

from session_files import FILES, lines_of, write_lines

from agentnb import load_trace
from agentnb.core.log.events import ModelReplied
from agentnb.core.messages import Thinking

CONTEXT = FILES / "kimi_cli" / "context.jsonl"


def test_replies_calls_and_results_match_the_file() -> None:
    run = load_trace(CONTEXT)
    records = lines_of(CONTEXT)
    assert len(run.rounds) == sum(record["role"] == "assistant" for record in records)
    first = run.rounds[0]
    assert [(record.call.name, record.call.arguments, record.success) for record in first.records] == [
        ("Bash", {"command": "ls"}, True),
        ("Glob", {"pattern": "**"}, False),
    ]
    reply = next(message for message in run.messages if message.role == "assistant")
    assert reply.parts[0] == Thinking("I list them.")
    assert (run.prompt, run.system, run.status) == ("How many files are here?", "You are Kimi.", "unknown")
    assert [message.author for message in run.messages if message.role == "user"] == ["", "kimi-cli"]


def test_conversation_length_is_noted_but_not_counted_as_usage() -> None:
    run = load_trace(CONTEXT)
    counts = [event.metadata["context_tokens"] for event in run.events if isinstance(event, ModelReplied)]
    assert counts == [5120, 5230] and run.rounds[0].usage.input is None


def test_session_starting_with_a_message_is_recognized(tmp_path: Path) -> None:
    run = load_trace(write_lines(tmp_path / "old.jsonl", lines_of(CONTEXT)[3:]))
    assert run.origin is not None and run.origin.format == "kimi_cli"
