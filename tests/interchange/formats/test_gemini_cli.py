"""Sessions of the Gemini CLI, as a document and as JSON Lines."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from session_files import FILES, write_lines

from agentnb import Run, load_trace
from agentnb.core.messages import Thinking

SMALL = FILES / "gemini_cli" / "gemini_small.json"
META = {"sessionId": "g-1", "projectHash": "h", "startTime": "2026-01-16T18:34:00.000Z", "kind": "main"}


def message(number: int, kind: str, content: Any, **more: Any) -> dict[str, Any]:
    return {"id": f"m{number}", "timestamp": f"2026-01-16T18:34:{number:02}.000Z", "type": kind, "content": content} | more


def call(status: str, name: str = "read_file", **more: Any) -> dict[str, Any]:
    answer = [{"functionResponse": {"id": "t", "name": name, "response": {"output": "text"}}}]
    return {"id": f"{name}-1", "name": name, "args": {"path": "a"}, "status": status, "result": answer} | more


def session(tmp_path: Path, *messages: Any) -> Run:
    path = tmp_path / "session.json"
    path.write_text(json.dumps(META | {"messages": messages}))
    return load_trace(path)


def replies(run: Run) -> list[tuple[str, list[str]]]:
    return [(round_.text, [made.name for made in round_.calls]) for round_ in run.rounds]


def test_messages_and_usage_match_the_file() -> None:
    recorded = json.loads(SMALL.read_text())
    run = load_trace(SMALL)
    assert [message.text for message in run.messages] == [message["content"] for message in recorded["messages"]]
    assert (run.id, run.model, run.status) == (recorded["sessionId"], "gemini-3-flash-preview", "unknown")
    assert run.messages[1].parts[0] == Thinking("Short reasoning placeholder.")
    assert (run.rounds[0].usage.input, run.rounds[0].usage.output, run.rounds[0].usage.reasoning) == (10, 5, 0)


def test_calls_and_results_are_read_from_their_message(tmp_path: Path) -> None:
    made = [
        call("success"),
        call("error", "run_shell"),
        call("cancelled", "write_file"),
        call("executing", "glob", result=None),
    ]
    run = session(tmp_path, message(1, "user", [{"text": "Go"}]), message(2, "gemini", "", toolCalls=made))
    records = run.rounds[0].records
    assert [record.success for record in records] == [True, False, False, False]
    codes = [record.result.error_code for record in records if record.result is not None]
    assert codes == [None, "tool_error", "cancelled", "lost"] and run.rounds[0].results[0].text == "text"
    assert run.status == "interrupted"


def test_notices_become_warnings_and_the_last_sets_the_status(tmp_path: Path) -> None:
    begun = [message(1, "user", "Go"), message(2, "gemini", "Yes.")]
    assert "Update available" in session(tmp_path, *begun, message(3, "info", "Update available")).warnings
    assert session(tmp_path, *begun, message(3, "info", "Request cancelled.")).status == "cancelled"
    assert session(tmp_path, *begun, message(3, "error", "Quota exceeded")).status == "failed"


def test_later_lines_can_replace_edit_or_withdraw_messages(tmp_path: Path) -> None:
    records = [
        META,
        message(1, "user", "Go"),
        message(2, "gemini", "Let"),
        message(2, "gemini", "Let me see.", toolCalls=[call("success")]),
        message(3, "user", "Wrong way"),
        message(4, "gemini", "Going."),
        {"$rewindTo": "m3"},
        {"$set": {"summary": "Seen"}},
        message(5, "user", "Right way"),
        message(6, "gemini", "There."),
    ]
    run = load_trace(write_lines(tmp_path / "session.jsonl", records))
    assert replies(run) == [("Let me see.", ["read_file"]), ("There.", [])]
    assert [one.text for one in run.messages if one.role == "user"] == ["Go", "Right way"]
    assert run.settings["recorded"]["summary"] == "Seen" and run.settings["recorded"]["messages_taken_back"] == 2
