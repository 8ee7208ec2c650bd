"""Sessions of the GitHub Copilot CLI."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from session_files import FILES, lines_of, write_lines

from agentnb import load_trace, load_traces
from agentnb.context.request_history import sent_request

SMALL = FILES / "copilot_cli" / "copilot_small.jsonl"


def event(kind: str, **data: Any) -> dict[str, Any]:
    return {"type": kind, "data": data, "id": "e", "timestamp": "2025-12-18T21:32:05.000Z", "parentId": None}


def request(call_id: str, name: str, **arguments: Any) -> dict[str, Any]:
    return {"type": "function", "toolCallId": call_id, "name": name, "arguments": arguments}


def test_replies_and_calls_match_the_file() -> None:
    said = [record["data"] for record in lines_of(SMALL) if record["type"] == "assistant.message"]
    (run,) = load_traces(SMALL)
    assert [round_.text for round_ in run.rounds] == [one["content"] for one in said]
    made = [call["name"] for one in said for call in one["toolRequests"]]
    assert [call.name for round_ in run.rounds for call in round_.calls if call.name != "unknown"] == made
    assert (run.id, run.model, run.prompt) == ("copilot_stage0_small", "gpt-5-mini", "List the files")
    first = run.rounds[0].records[0]
    assert (first.call.arguments, first.seconds, run.rounds[0].usage.output) == ({"command": "ls"}, 0.004, 12)
    assert "Example model error" in run.warnings and run.settings["recorded"]["shutdown"][0]["currentTokens"] == 120


def test_sub_agent_is_nested_in_the_run_that_started_it(tmp_path: Path) -> None:
    inner = {"parentToolCallId": "t1"}
    path = write_lines(
        tmp_path / "events.jsonl",
        [
            event("session.start", sessionId="p-1", selectedModel="gpt-5"),
            event("user.message", content="Go"),
            event("assistant.message", content="", toolRequests=[request("t1", "task", prompt="Count")]),
            event("subagent.started", toolCallId="t1", agentName="explore"),
            event("assistant.message", content="", toolRequests=[request("t2", "glob")], **inner),
            event("tool.execution_complete", toolCallId="t2", success=True, result={"content": "a"}, **inner),
            event("assistant.message", content="One.", **inner),
            event("tool.execution_complete", toolCallId="t1", success=True, result={"content": "One."}),
            event("assistant.message", content="Done."),
        ],
    )
    main, sub = load_traces(path)
    assert [round_.text for round_ in main.rounds] == ["", "Done."] and main.rounds[0].results[0].text == "One."
    assert (sub.id, sub.parent_id, sub.agent, sub.prompt) == ("p-1-t1", "p-1", "explore", "Count")
    assert [round_.text for round_ in sub.rounds] == ["", "One."]
    assert main.rounds[1].usage.output is None


def test_event_before_its_predecessor_is_moved_after_it(tmp_path: Path) -> None:
    said = [
        event("user.message", content="Go"),
        event("assistant.message", content="", toolRequests=[request("t1", "glob")]),
        event("tool.execution_complete", toolCallId="t1", success=True, result={"content": "a"}),
        event("assistant.message", content="Done."),
    ]
    linked = [one | {"id": f"e{place}", "parentId": f"e{place - 1}"} for place, one in enumerate(said)]
    run = load_trace(
        write_lines(tmp_path / "events.jsonl", [event("session.start", sessionId="p-1"), *linked[:1], *linked[:0:-1]])
    )
    assert [round_.text for round_ in run.rounds] == ["", "Done."] and run.rounds[0].results[0].text == "a"


def test_compaction_replaces_earlier_messages_in_later_requests(tmp_path: Path) -> None:
    path = write_lines(
        tmp_path / "events.jsonl",
        [
            event("user.message", content="Go"),
            event("assistant.message", content="On it."),
            event("session.compaction_complete", success=True, summaryContent="It was begun.", messagesRemoved=2),
            event("user.message", content="Go on"),
            event("assistant.message", content="Done."),
        ],
    )
    run = load_trace(path)
    assert [message.text for message in sent_request(run, 1).request.messages] == ["It was begun.\n\nGo on"]


def test_abort_cancels_the_run_and_failed_tools_state_reasons(tmp_path: Path) -> None:
    failed = {"success": False, "error": {"message": "Denied by the user", "code": "denied"}}
    path = write_lines(
        tmp_path / "events.jsonl",
        [
            event("session.start", sessionId="p-1"),
            event("user.message", content="Go", attachments=[{"type": "file", "path": "a.txt"}]),
            event("assistant.message", content="", toolRequests=[request("t1", "shell")]),
            event("tool.execution_complete", toolCallId="t1", **failed),
            event("abort", reason="user_initiated"),
        ],
    )
    run = load_trace(path)
    result = run.rounds[0].results[0]
    assert run.status == "cancelled" and (result.text, result.error_code) == ("Denied by the user", "denied")
    assert "a.txt" in run.prompt
