"""Sessions of the Codex CLI, in the current form and the first ones."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from session_files import FILES, lines_of, write_lines

from agentnb import Run, load_trace, load_traces
from agentnb.context.request_history import sent_request
from agentnb.core.log.events import CommandReceived
from agentnb.detect import findings

LARGE = FILES / "codex" / "codex_large.jsonl"


def line(kind: str, at: int = 0, **payload: Any) -> dict[str, Any]:
    return {"timestamp": f"2025-12-18T10:00:{at:02}.000Z", "type": kind, "payload": payload}


def item(kind: str, at: int = 0, **fields: Any) -> dict[str, Any]:
    return line("response_item", at, **{"type": kind} | fields)


def message(role: str, text: str, at: int = 0) -> dict[str, Any]:
    kind = "output_text" if role == "assistant" else "input_text"
    return item("message", at, role=role, content=[{"type": kind, "text": text}])


def counts(last: int, total: int) -> dict[str, Any]:
    used = {"input_tokens": last, "cached_input_tokens": 10, "output_tokens": 5, "reasoning_output_tokens": 2}
    return line("event_msg", type="token_count", info={"last_token_usage": used, "total_token_usage": {"input_tokens": total}})


def replies(run: Run) -> list[tuple[str, list[str]]]:
    return [(round_.text, [call.name for call in round_.calls]) for round_ in run.rounds]


def session(tmp_path: Path, *records: Any) -> Run:
    return load_trace(write_lines(tmp_path / "rollout.jsonl", [line("session_meta", id="c-1", cwd="/work"), *records]))


def test_replies_calls_and_results_match_the_file() -> None:
    items = [record["payload"] for record in lines_of(LARGE) if record["type"] == "response_item"]
    run = load_trace(LARGE)
    said = [item for item in items if item["type"] == "message" and item["role"] == "assistant"]
    assert [round_.text for round_ in run.rounds] == [one["content"][0]["text"] for one in said]
    calls = [record for round_ in run.rounds for record in round_.records]
    assert [record.call.name for record in calls] == [item["function"]["name"] for item in items if item["type"] == "tool_call"]
    assert calls[0].call.arguments == {"command": "printf 'line1\\nline2\\nline3\\n'", "cwd": "/tmp/large"}
    assert calls[0].result is not None and calls[0].result.text == "line1\nline2\nline3\n"
    used = run.rounds[0].usage
    assert (used.input, used.cache_read, used.output, used.reasoning) == (12091, 10880, 182, 128)
    assert (run.prompt, run.model, run.system, run.status) == ("Start", "gpt-5.2", "large", "unknown")
    assert "codex" in [message.author for message in run.messages]  # its environment is not a user message


def test_reply_extends_to_its_result_and_events_add_no_duplicates(tmp_path: Path) -> None:
    run = session(
        tmp_path,
        message("user", "<environment_context>x</environment_context>"),
        line("event_msg", type="user_message", message="Go"),
        message("user", "Go"),
        item("reasoning", summary=[{"type": "summary_text", "text": "Hm."}], encrypted_content="x"),
        item("function_call", name="shell", arguments='{"command": ["ls"]}', call_id="c1"),
        item("custom_tool_call", name="apply_patch", input="*** Begin", call_id="c2"),
        counts(100, 100),
        item("function_call_output", call_id="c1", output='{"output":"a","metadata":{"exit_code":1,"duration_seconds":0.5}}'),
        item("custom_tool_call_output", call_id="c2", output="Exit code: 0\nWall time: 2 seconds\nOutput:\nok"),
        counts(100, 100),
        line("event_msg", type="agent_message", message="Done."),
        message("assistant", "Done."),
        counts(200, 300),
        line("event_msg", type="task_complete"),
    )
    assert replies(run) == [("", ["shell", "apply_patch"]), ("Done.", [])]
    first, second = run.rounds[0].records
    assert (first.call.arguments, first.success, first.seconds) == ({"command": ["ls"]}, False, 0.5)
    assert (second.call.arguments, second.success, second.seconds) == ({"input": "*** Begin"}, True, 2.0)
    assert [round_.usage.input for round_ in run.rounds] == [100, 200]
    assert (run.prompt, run.status, run.stop_reason, run.id) == ("Go", "completed", "natural", "c-1")


def test_aborted_turn_cancels_the_run_and_error_fails_it(tmp_path: Path) -> None:
    begun = [message("user", "Go"), item("function_call", name="shell", arguments="{}", call_id="c1")]
    aborted = line("event_msg", type="turn_aborted", reason="interrupted")
    assert session(tmp_path, *begun, aborted).status == "cancelled"
    failed = session(tmp_path, *begun, line("event_msg", type="error", message="Usage limit"))
    assert failed.status == "failed" and failed.error is not None and failed.error.message == "Usage limit"


def test_compaction_replaces_earlier_messages_except_the_prompt(tmp_path: Path) -> None:
    begun = [message("user", "Go"), message("assistant", "On it."), message("user", "Go on")]
    done = [message("assistant", "Done."), message("user", "More"), message("assistant", "No.")]
    for told, expected in (("It was begun.", "It was begun."), ("", "(The summary is encrypted.)")):
        run = session(tmp_path, *begun, line("compacted", message=told), *done)
        assert [one.text for one in sent_request(run, 0).request.messages] == ["Go"]
        assert [one.text for one in sent_request(run, 1).request.messages] == [f"Go\n\n{expected}"]
        assert [one.text for one in sent_request(run, 2).request.messages][1:] == ["Done.", "More"]


def test_sub_agent_run_records_the_session_that_started_it(tmp_path: Path) -> None:
    source = {"subagent": {"thread_spawn": {"parent_thread_id": "c-0", "depth": 1}}}
    path = write_lines(tmp_path / "sub.jsonl", [line("session_meta", id="c-1", source=source), message("user", "Count")])
    run = load_trace(path)
    assert (run.id, run.parent_id, run.agent) == ("c-1", "c-0", "subagent")


def rollout(session: str, at: int, *records: Any, **more: Any) -> list[dict[str, Any]]:
    return [line("session_meta", at, id=session, **more), *records]


def test_copied_part_of_a_fork_becomes_history_whatever_its_timestamps(tmp_path: Path, subtests: pytest.Subtests) -> None:
    first = rollout("c-1", 0, message("user", "Go", 1), message("assistant", "On it.", 9), counts(100, 100))
    first[-1]["timestamp"] = first[-2]["timestamp"]
    asked = message("user", "More", 31)
    own = [asked, message("assistant", "Yes.", 39), counts(200, 300) | {"timestamp": "2025-12-18T10:00:40.000Z"}]
    fork = {"forked_from_id": "c-1"}
    spawned = {"source": {"subagent": {"thread_spawn": {"parent_thread_id": "c-1"}}}}
    stamped = [one | {"timestamp": f"2025-12-18T10:00:30.{place:03}Z"} for place, one in enumerate(first)]
    at_once = [asked | {"timestamp": "2025-12-18T10:00:30.900Z"}, *own[1:]]
    for form, copied, after, about in (
        ("own times", first, own, fork),
        ("times of the fork", stamped, own, fork),
        ("asked at once", stamped, at_once, fork),
        ("sub-agent", stamped, own, spawned),
    ):
        with subtests.test(form):
            write_lines(tmp_path / form / "1.jsonl", first)
            write_lines(tmp_path / form / "2.jsonl", rollout("c-2", 30, *copied, *after, **about))
            one, two = load_traces(tmp_path / form)
            assert ([message.text for message in two.messages], two.inherited) == (["Go", "On it.", "More", "Yes."], 2)
            assert (two.prompt, one.usage.input, two.usage.input) == ("More", 100, 200)
            found = None if two.forked_from is None else (two.forked_from.run_id, two.forked_from.round)
            assert found == (("c-1", 1) if about is fork else None) and two.parent_id == (None if about is fork else "c-1")
    alone = rollout("c-2", 30, message("user", "More", 30), message("assistant", "Yes.", 31), **spawned)
    assert len(load_trace(write_lines(tmp_path / "alone.jsonl", alone)).rounds) == 1, "a sub-agent that copies nothing"
    empty = load_trace(write_lines(tmp_path / "empty.jsonl", rollout("c-2", 30, *stamped, **fork)))
    assert (len(empty.rounds), empty.inherited, empty.status) == (0, 2, "interrupted")


def test_product_and_developer_texts_are_not_user_messages(tmp_path: Path) -> None:
    loop = [item("function_call", name="shell", arguments="{}", call_id="c{}"), item("function_call_output", output="same")]
    calls = [{**one, "payload": {**one["payload"], "call_id": f"c{number}"}} for number in range(4) for one in loop]
    notices = [message("developer", "Mind the time."), message("user", "<subagent_notification>done</subagent_notification>")]
    run = session(tmp_path, message("developer", "Be brief."), message("user", "Go"), *calls[:4], *notices, *calls[4:])
    assert run.prompt == "Go" and [round_.reason for round_ in run.rounds] == ["prompt", *["tool_results"] * 3]
    said = [event for event in run.events if isinstance(event, CommandReceived)]
    assert [(one.message.author, one.by_person) for one in said if one.message is not None] == [
        ("developer", False),
        ("developer", False),
        ("codex", False),
    ]
    assert run.calls_this_turn == 4 and any(finding.first == 0 and finding.last == 3 for finding in findings(run))
    only = session(tmp_path, message("developer", "Begin."), message("assistant", "Done."))
    assert only.prompt == "Begin."


def test_agent_plan_is_read_as_its_todo_list(tmp_path: Path) -> None:
    plan = '{"plan": [{"step": "Look", "status": "completed"}, {"step": "Fix", "status": "in_progress"}]}'
    call = item("function_call", name="update_plan", arguments=plan, call_id="c1")
    run = session(tmp_path, message("user", "Go"), call, item("function_call_output", call_id="c1", output="Plan updated"))
    assert [(todo.title, todo.status) for todo in run.todos] == [("Look", "completed"), ("Fix", "in-progress")]


def test_files_without_messages_have_one_round_per_turn() -> None:
    for name, expected in (
        ("codex_050_legacy.jsonl", [(1420, 910), (None, None)]),
        ("codex_052_raw.jsonl", [(980, 640), (1620, 240)]),
    ):
        (run,) = load_traces(FILES / "codex" / name)
        assert [(round_.usage.input, round_.usage.output) for round_ in run.rounds] == expected


def test_flat_lines_of_early_versions_are_read(tmp_path: Path) -> None:
    records = [
        {"id": "c-9", "timestamp": "2025-05-07T10:00:00.000Z", "instructions": "Be brief."},
        {"record_type": "state"},
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Go"}]},
        {"type": "function_call", "name": "shell", "arguments": "{}", "call_id": "c1"},
        {"type": "function_call_output", "call_id": "c1", "output": "ok"},
        {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Done."}]},
    ]
    run = load_trace(write_lines(tmp_path / "old.jsonl", records))
    assert (run.id, run.system, replies(run)) == ("c-9", "Be brief.", [("", ["shell"]), ("Done.", [])])
