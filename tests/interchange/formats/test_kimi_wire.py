"""Sessions of the Kimi CLI from its wire file."""

from __future__ import annotations

import zipfile
from pathlib import Path
from shutil import copy

from benchmark_files import results
from session_files import FILES, lines_of, write_lines

from agentnb import load_trace, load_traces
from agentnb.core.messages import Text, Thinking

WIRE = FILES / "kimi_wire" / "wire.jsonl"


def test_step_becomes_a_reply_with_calls_usage_and_times() -> None:
    run = load_trace(WIRE)
    steps = [record for record in lines_of(WIRE) if record.get("message", {}).get("type") == "StepBegin"]
    assert len(run.rounds) == len(steps) == 2
    reply = next(message for message in run.messages if message.role == "assistant")
    assert reply.parts[:2] == (Thinking("I list them."), Text("Let me see."))
    assert [(call.name, call.arguments) for call in reply.calls] == [
        ("Shell", {"command": "ls"}),
        ("Task", {"subagent_name": "coder", "prompt": "Count the lines."}),  # its arguments came in two pieces
    ]
    usage = run.rounds[0].usage
    assert usage is not None and (usage.input, usage.output, usage.cache_read, usage.cache_write) == (5110, 20, 5000, 10)
    assert (run.prompt, run.text, run.status, run.stop_reason) == (
        "How many files are here?",
        "Two files.",
        "completed",
        "natural",
    )
    assert run.started_at is not None and run.started_at.timestamp() == 1770983400


def test_sub_agent_becomes_a_run_within_the_session() -> None:
    run, nested = load_traces(WIRE)
    assert nested.parent_id == run.id and nested.status == "unknown"
    assert results(nested) == [("Failed with exit code: 1", "tool_error")]
    assert nested.text == "It cannot be counted." and "Count the lines." in nested.prompt


def test_repeated_usage_of_a_message_replaces_the_earlier_value(tmp_path: Path) -> None:
    records = lines_of(WIRE)
    again = {"type": "StatusUpdate", "payload": {"message_id": "chatcmpl-1", "token_usage": {"input_other": 7, "output": 1}}}
    run = load_trace(write_lines(tmp_path / "w.jsonl", [*records, {"timestamp": 1770983420, "message": again}]))
    assert [round_.usage.output for round_ in run.rounds if round_.usage] == [1, 5]


def test_session_interrupted_in_a_step_is_cancelled(tmp_path: Path) -> None:
    stopped = {"timestamp": 1770983401.7, "message": {"type": "StepInterrupted", "payload": {}}}
    run = load_trace(write_lines(tmp_path / "w.jsonl", [*lines_of(WIRE)[:6], stopped]))
    assert (run.status, run.stop_reason) == ("cancelled", "cancelled")


def test_damaged_line_is_reported_as_a_problem(tmp_path: Path) -> None:
    records = lines_of(WIRE)
    records.insert(5, {"timestamp": 1, "message": {"type": "ToolCall", "payload": {}}})
    runs = load_traces(write_lines(tmp_path / "w.jsonl", records), strict=False)
    assert len(runs) == 2 and [problem.position for problem in runs.problems] == ["line 6"]


def test_session_folder_is_one_run_with_its_system_prompt(tmp_path: Path) -> None:
    copy(FILES / "kimi_wire/wire.jsonl", tmp_path)
    (tmp_path / "context.jsonl").write_text(
        '{"role": "_system_prompt", "content": "You are Kimi."}\n{"role": "user", "content": "How many files are here?"}\n'
    )
    alone = load_traces(tmp_path / "wire.jsonl")
    together = load_traces(tmp_path)
    assert [(run.id, run.system) for run in together] == [(run.id, run.system) for run in alone]
    assert together[0].system == "You are Kimi." and together[0].origin is not None
    assert {run.origin.format for run in together if run.origin} == {"kimi_wire"}
    with zipfile.ZipFile(tmp_path / "session.zip", "w") as archive:
        for name in ("wire.jsonl", "context.jsonl"):
            archive.write(tmp_path / name, f"sessions/1/{name}")
    packed = load_traces(tmp_path / "session.zip")
    (tmp_path / "session.zip").unlink()
    assert [(len(run.rounds), run.system) for run in packed] == [(len(run.rounds), run.system) for run in together]
    assert load_trace(tmp_path / "context.jsonl").prompt == "How many files are here?", "a named file is read"
    (tmp_path / "wire.jsonl").write_text('{"other": 1}\n')
    assert load_traces(tmp_path, strict=False)[0].prompt == "How many files are here?", "files beside it are not sessions"
