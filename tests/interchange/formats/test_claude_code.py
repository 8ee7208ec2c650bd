"""Sessions of Claude Code: partial replies, results, sub-agents, branches, compaction, interruptions and errors."""

from __future__ import annotations

import base64
import gzip
import json
import zipfile
from pathlib import Path
from typing import Any

import pytest
from session_files import FILES, claude_call, claude_reply, claude_result, claude_user, lines_of, write_lines

from agentnb import Run, load_trace, load_traces, tables
from agentnb.context.request_history import sent_requests
from agentnb.core.log.events import CommandReceived, ModelReplied
from agentnb.core.messages import Image, Text, Thinking
from agentnb.errors import TraceError
from agentnb.interchange.archives import trace_file
from agentnb.interchange.formats import claude_code, format_of

REPRESENTATIVE = FILES / "claude_code" / "representative_messages.jsonl"
LARGE = FILES / "claude_code" / "claude_large.jsonl"
WEB = FILES / "claude_code_web" / "simonw_sample_session.json"
PICTURE = base64.b64encode(b"\x89PNG").decode()


def said(run: Run) -> list[tuple[str, str]]:
    return [(message.author, message.text) for message in run.messages if message.role == "user"]


def replies(run: Run) -> list[tuple[str, list[str]]]:
    return [(round_.text, [call.name for call in round_.calls]) for round_ in run.rounds]


def session(tmp_path: Path, *records: Any, name: str = "session.jsonl") -> Run:
    return load_trace(write_lines(tmp_path / name, records))


def counted(records: list[dict[str, Any]]) -> tuple[int, int, int]:
    """Return the replies, calls and results of these lines; a line without a message id is a separate reply."""
    made = [record["message"] for record in records if record.get("type") == "assistant"]
    ids = {message.get("id") or f"line {place}" for place, message in enumerate(made)}
    blocks = [block for record in records if "message" in record for block in record["message"]["content"]]
    kinds = [block["type"] for block in blocks if isinstance(block, dict)]
    return len(ids), kinds.count("tool_use"), kinds.count("tool_result")


@pytest.mark.parametrize("path", [REPRESENTATIVE, LARGE, WEB], ids=lambda path: path.stem)
def test_replies_calls_and_results_match_the_file(path: Path) -> None:
    records = json.loads(path.read_text())["loglines"] if path is WEB else lines_of(path)
    run = load_trace(path)
    calls = [record for round_ in run.rounds for record in round_.records]
    assert counted(records) == (
        len(run.rounds),
        len(calls),
        sum(call.result is not None and call.result.error_code != "lost" for call in calls),
    )
    assert run.origin is not None and run.origin.format == ("claude_code_web" if path is WEB else "claude_code")


def test_lines_with_the_same_message_id_form_one_reply(tmp_path: Path) -> None:
    usage = {"input_tokens": 3, "cache_creation_input_tokens": 100, "cache_read_input_tokens": 1000, "output_tokens": 1}
    run = session(
        tmp_path,
        {"type": "progress", "uuid": "p0", "parentUuid": None, "sessionId": "s-1", "data": {"type": "hook_progress"}},
        claude_user("u1", "p0", "Go", cwd="/work", gitBranch="main", version="2.1.0"),
        claude_reply("a1", "u1", "m1", {"type": "thinking", "thinking": "Hm.", "signature": "x"}, message={"usage": usage}),
        claude_reply("a2", "a1", "m1", "I look.", message={"usage": usage}),
        claude_reply("a3", "a2", "m1", claude_call("t1", command="ls"), message={"usage": usage | {"output_tokens": 42}}),
        claude_result("r1", "a3", "t1", "a.txt", toolUseResult={"stdout": "a.txt", "durationMs": 1500}),
        claude_reply("a4", "a3", "m1", claude_call("t2"), message={"usage": usage | {"output_tokens": 7}}),
        claude_result("r2", "a4", "t2", "Exit code 1", block={"is_error": True}),
        claude_reply("a5", "r1", "m2", "Done.", message={"stop_reason": "end_turn"}),
    )
    assert replies(run) == [("I look.", ["Bash", "Bash"]), ("Done.", [])]
    first, second = run.rounds[0].records
    assert [type(part) for part in run.messages[1].parts[:2]] == [Thinking, Text]
    assert (first.seconds, first.success, second.success) == (1.5, True, False)
    assert second.result is not None and second.result.error_code == "tool_error"
    used = run.rounds[0].usage
    assert (used.input, used.output, used.cache_read, used.cache_write) == (1103, 42, 1000, 100)
    assert run.rounds[1].usage.input is None
    assert (run.id, run.status, run.stop_reason, run.model) == ("s-1", "completed", "natural", "claude-x")
    recorded = {"session": "s-1", "cwd": "/work", "git_branch": "main", "version": "2.1.0"}
    assert run.settings["recorded"] == recorded


def test_session_counts_sub_agents_in_other_files_once(tmp_path: Path, subtests: pytest.Subtests) -> None:
    """With any names; own tokens add up to the total, and a single file counts them too."""

    def used(tokens: int) -> dict[str, Any]:
        return {"usage": {"input_tokens": tokens, "output_tokens": 1}}

    ran = claude_result("u2", "a1", "t1", "3") | {"toolUseResult": {"agentId": "a93"}}
    call = claude_reply("a1", "u1", "m1", claude_call("t1", "Task", prompt="Count"), message=used(100))
    main = [claude_user("u1", None, "Go"), call, ran, claude_reply("a2", "u2", "m2", "Three.", message=used(200))]
    side = {"agentId": "a93", "isSidechain": True}
    agent = [claude_user("x1", None, "Count", **side), claude_reply("x2", "x1", "m9", "3", message=used(7), **side)]
    other = [record | {"sessionId": "s-2"} for record in agent]
    for place, counts in {
        "agent-a93.jsonl": True,
        "s-1_agent-a93.jsonl": True,
        "s-1/subagents/agent-a93.jsonl": True,
        "agent-b.jsonl": False,
        "of another session/agent-a93.jsonl": False,
    }.items():
        with subtests.test(place):
            folder = tmp_path / place.replace("/", "_")
            (folder / place).parent.mkdir(parents=True)
            path = write_lines(folder / "session.jsonl", main)
            write_lines(folder / place, agent)
            total = 307 if counts else 300
            assert load_trace(path).usage.input == total
            table = tables.runs(load_traces(folder)).set_index("run_id")
            assert dict(table["input_tokens"]) == {"s-1": total, "s-1-agent-a93": 7}
            assert table["own_input_tokens"].sum() == 307
            archive = tmp_path / f"{folder.name}.zip"
            with zipfile.ZipFile(archive, "w") as names:
                for one in sorted(folder.rglob("*.jsonl")):
                    names.write(one, one.relative_to(folder).as_posix())
            assert [run.usage.input for run in load_traces(archive) if run.id == "s-1"] == [total]
    folder = tmp_path / "others"
    folder.mkdir()
    write_lines(folder / "agent-a93.jsonl", other)
    assert load_trace(write_lines(folder / "session.jsonl", main)).usage.input == 300, "of another session"
    named = [record | {"toolUseResult": {"agentId": "/../../agent-x"}} if record is ran else record for record in main]
    write_lines(tmp_path / "agent-x.jsonl", [record | {"agentId": "/../../agent-x"} for record in agent])
    assert load_trace(write_lines(folder / "sub.jsonl", named)).usage.input == 300, "ids are not paths"


def test_message_id_reused_after_a_new_prompt_is_another_reply(tmp_path: Path) -> None:
    run = session(
        tmp_path,
        claude_user("u1", None, "One"),
        claude_reply("a1", "u1", "m", "1"),
        claude_user("u2", "a1", "Two"),
        claude_reply("a2", "u2", "m", "2"),
    )
    assert replies(run) == [("1", []), ("2", [])]


def test_line_repeated_by_a_resumed_session_is_read_once(tmp_path: Path) -> None:
    once = [claude_user("u1", None, "Go"), claude_reply("a1", "u1", "m1", "Done.")]
    assert replies(session(tmp_path, *once, *once)) == [("Done.", [])]


def test_withdrawn_prompt_becomes_a_fork(tmp_path: Path) -> None:
    path = write_lines(
        tmp_path / "rewound.jsonl",
        [
            claude_user("u1", None, "Start"),
            claude_reply("a1", "u1", "m1", "Started."),
            claude_user("u2", "a1", "Wrong way"),
            claude_reply("a2", "u2", "m2", "Going.", claude_call("t1")),
            claude_result("r2", "a2", "t1", "gone"),
            {"type": "system", "uuid": "y1", "parentUuid": "a1", "sessionId": "s-1", "subtype": "informational"},
            claude_user("u3", "y1", "Right way"),
            claude_reply("a3", "u3", "m3", "There."),
        ],
    )
    main, left = load_traces(path)
    assert (replies(main), said(main)) == ([("Started.", []), ("There.", [])], [("", "Start"), ("", "Right way")])
    assert (replies(left), said(left)) == ([("Going.", ["Bash"])], [("", "Start"), ("", "Wrong way")])
    assert [message.text for message in left.messages[: left.inherited]] == ["Start", "Started."] and left.prompt == "Wrong way"
    assert left.forked_from is not None and (left.forked_from.run_id, left.forked_from.round) == (main.id, 1)
    assert load_trace(path) == main


def used(tokens: int) -> dict[str, Any]:
    return {"message": {"usage": {"input_tokens": tokens, "output_tokens": 1}}}


def test_nested_forks_share_their_beginning_and_count_replies_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write_lines(
        tmp_path / "rewound.jsonl",
        [
            claude_user("u1", None, "First"),
            claude_reply("a1", "u1", "m1", "One.", **used(1)),
            claude_user("u2", "a1", "Second"),
            claude_reply("a2", "u2", "m2", "Two.", **used(10)),
            claude_user("u3", "a2", "Third"),
            claude_reply("a3", "u3", "m3", "Three.", **used(100)),
            claude_user("u4", "a2", "Third again"),
            claude_reply("a4", "u4", "m4", "Four.", **used(1000)),
            claude_user("u5", "a1", "Second again"),
            claude_reply("a5", "u5", "m5", "Five.", **used(10_000)),
            claude_user("u6", None, "First again"),
            claude_reply("a6", "u6", "m6", "Six.", **used(100_000)),
        ],
    )
    runs = load_traces(path)
    heads = {run.prompt: [message.text for message in run.messages[: run.inherited]] for run in runs}
    assert heads == {
        "First again": [],
        "First": [],
        "Second": ["First", "One."],
        "Third": ["First", "One.", "Second", "Two."],
    }
    assert {run.prompt: [round_.text for round_ in run.rounds] for run in runs} == {
        "First again": ["Six."],
        "First": ["One.", "Five."],
        "Second": ["Two.", "Four."],
        "Third": ["Three."],
    }
    by_id = {run.id: run.prompt for run in runs}
    forks = {run.prompt: (by_id[run.forked_from.run_id], run.forked_from.round) for run in runs if run.forked_from}
    assert forks == {"First": ("First again", 0), "Second": ("First", 1), "Third": ("Second", 1)}
    assert sum(run.usage.input or 0 for run in runs) == tables.usage(runs)["input_tokens"].sum() == 111_111
    monkeypatch.setattr(claude_code, "MAX_SHARED_MESSAGES", 5)
    bounded = load_traces(path)
    assert {run.prompt: run.inherited for run in bounded} == {"First again": 0, "First": 0, "Second": 0, "Third": 4}
    assert sum(run.usage.input or 0 for run in bounded) == 111_111


def test_result_before_its_call_is_moved_after_it(tmp_path: Path) -> None:
    asked, call = claude_user("u1", None, "Go"), claude_reply("a1", "u1", "m1", claude_call("t1"))
    result, done = claude_result("r1", "a1", "t1", "ok"), claude_reply("a2", "r1", "m2", "Done.")
    circle = [claude_user("x1", "x2", "Round"), claude_user("x2", "x1", "and round")]
    for lines in ([asked, result, call, done], [done, result, call, asked]):
        run = session(tmp_path, *lines)
        assert replies(run) == [("", ["Bash"]), ("Done.", [])]
        assert [record.success for record in run.rounds[0].records] == [True]
    assert said(session(tmp_path, asked, call, result, *circle))[1:] == [("", "Round"), ("", "and round")], "nothing is lost"


def test_copied_part_of_a_forked_session_becomes_history(tmp_path: Path, subtests: pytest.Subtests) -> None:
    """With lines that declare it or keep the id of their session, also between the calls of a reply."""
    main = [
        claude_user("u1", None, "Go"),
        claude_reply("a1", "u1", "m1", claude_call("t1"), **used(1)),
        claude_result("r1", "a1", "t1", "ok"),
        claude_reply("a2", "r1", "m2", "Done.", **used(10)),
    ]
    own = [claude_user("u3", "a2", "More"), claude_reply("a3", "u3", "m3", "Yes.", **used(100))]
    own = [one | {"sessionId": "s-2"} for one in own]
    for form, copied in {
        "forked": [one | {"sessionId": "s-2", "forkedFrom": {"sessionId": "s-1", "messageUuid": one["uuid"]}} for one in main],
        "continued": main,
        "unmarked": [one | {"sessionId": "s-2"} for one in main],
    }.items():
        with subtests.test(form):
            write_lines(tmp_path / form / "s-1.jsonl", main)
            path = write_lines(tmp_path / form / "s-2.jsonl", [*copied, *own])
            first, second = load_traces(tmp_path / form)
            assert [message.text for message in second.messages] == ["Go", "", "", "Done.", "More", "Yes."]
            assert (first.id, second.id, load_trace(path).id) == ("s-1", "s-2", "s-2")
            if form != "unmarked":
                assert (second.prompt, len(second.rounds), second.usage.input, second.inherited) == ("More", 1, 100, 4)
            if form == "forked":
                assert second.forked_from is not None and (second.forked_from.run_id, second.forked_from.round) == ("s-1", 2)
            assert second.continued_from == ("s-1" if form == "continued" else None)
    in_the_middle = [one | {"forkedFrom": {"sessionId": "s-1"}, "sessionId": "s-2"} for one in main[:2]]
    rest = [one | {"sessionId": "s-2"} for one in main[2:]]
    run = load_trace(write_lines(tmp_path / "s-2.jsonl", [*in_the_middle, *rest]))
    assert [round_.text for round_ in run.rounds] == ["Done."] and run.result_of("t1") is not None
    alone = load_traces(write_lines(tmp_path / "alone" / "s-2.jsonl", [*main, *own]))
    assert [(run.id, run.usage.input) for run in alone] == [("s-1", 11), ("s-2", 100)], "the first has no separate file"


def test_results_of_parallel_calls_are_not_forks(tmp_path: Path) -> None:
    run = session(
        tmp_path,
        claude_user("u1", None, "Go"),
        claude_reply("a1", "u1", "m1", claude_call("t1")),
        claude_reply("a2", "a1", "m1", claude_call("t2")),
        claude_result("r1", "a1", "t1", "1"),
        claude_result("r2", "a2", "t2", "2"),
        claude_reply("a3", "r1", "m2", "Both."),
    )
    assert replies(run) == [("", ["Bash", "Bash"]), ("Both.", [])]


def test_sub_agents_are_nested_runs_in_same_or_separate_files(tmp_path: Path) -> None:
    task = claude_call("t1", "Task", prompt="Count", subagent_type="Explore")
    side = {"isSidechain": True}
    main = [claude_user("u1", None, "Go"), claude_reply("a1", "u1", "m1", task), claude_result("r1", "a1", "t1", "3")]
    agent = [claude_user("x1", None, "Count", **side), claude_reply("x2", "x1", "m9", "3", **side)]
    within = load_traces(write_lines(tmp_path / "one.jsonl", [*main[:2], *agent, main[2]]))
    assert [(run.id, run.parent_id, run.agent) for run in within] == [
        ("s-1", None, "agent"),
        ("s-1-agent-x1", "s-1", "Explore"),
    ]
    assert replies(within[0]) == [("", ["Task"])] and replies(within[1]) == [("3", [])]
    alone = [record | {"agentId": "a93"} for record in agent]
    folder = tmp_path / "apart"
    write_lines(folder / "session.jsonl", main)
    path = write_lines(folder / "agent-a93.jsonl", alone)
    assert [(run.id, run.parent_id) for run in load_traces(folder)] == [("s-1-agent-a93", "s-1"), ("s-1", None)]
    assert load_trace(path).parent_id == "s-1"


def test_compaction_replaces_earlier_messages_in_later_requests(tmp_path: Path) -> None:
    compact = {"trigger": "auto", "preTokens": 167094}
    run = session(
        tmp_path,
        claude_user("u1", None, "Go"),
        claude_reply("a1", "u1", "m1", "On it."),
        {"type": "system", "subtype": "compact_boundary", "uuid": "c", "parentUuid": None, "sessionId": "s-1"}
        | {"logicalParentUuid": "a1", "compactMetadata": compact},
        claude_user("u2", "c", "So far: ...", isCompactSummary=True),
        claude_reply("a2", "u2", "m2", "Going on."),
        claude_user("u3", "a2", "Go on"),
        claude_reply("a3", "u3", "m3", "Done."),
        {"type": "summary", "summary": "Went well", "leafUuid": "a3"},
    )
    assert said(run) == [("", "Go"), ("", "Go on")]
    requests = [[(message.role, message.text) for message in seen.request.messages] for _, seen in sent_requests(run)]
    assert requests == [
        [("user", "Go")],
        [("user", "So far: ...")],
        [("user", "So far: ..."), ("assistant", "Going on."), ("user", "Go on")],
    ]
    assert [compaction.why for compaction in run.rounds[1].compactions] == ["recorded"]
    assert run.settings["recorded"]["compactions"] == [{"trigger": "auto", "tokens_before": 167094, "after_rounds": 1}]
    assert run.settings["recorded"]["titles"] == ["Went well"]


def test_summary_at_the_start_or_end_is_a_message(tmp_path: Path) -> None:
    summary = claude_user("u2", "a1", "So far: ...", isCompactSummary=True)
    run = session(tmp_path, claude_user("u1", None, "Go"), claude_reply("a1", "u1", "m1", "On it."), summary)
    assert said(run) == [("", "Go"), ("summary", "So far: ...")]
    first = claude_user("u0", None, "Before: ...", isCompactSummary=True)
    run = session(tmp_path, first, claude_user("u1", "u0", "Go"), claude_reply("a1", "u1", "m1", "On it."))
    assert said(run) == [("", "Go"), ("summary", "Before: ...")]


def test_prompt_excludes_notices_added_by_the_product(tmp_path: Path) -> None:
    run = session(
        tmp_path,
        claude_user("u0", None, "Caveat: The messages below were generated by the user", isMeta=True),
        claude_user("u1", "u0", "<command-name>/clear</command-name>"),
        claude_user("u2", "u1", "Go"),
        claude_reply("a1", "u2", "m1", "Done."),
        claude_user("u3", "a1", "<command-name>/exit</command-name>"),
        claude_user("u4", "u3", "<local-command-stdout>Bye!</local-command-stdout>"),
    )
    assert run.prompt == "Go" and run.status == "unknown"
    by_person = {
        event.message.author: event.by_person for event in run.events if isinstance(event, CommandReceived) and event.message
    }
    assert by_person == {"claude-code": False, "command": True}
    assert [author for author, _ in said(run)] == ["", "claude-code", "command", "command", "command"]


def test_interrupted_run_counts_as_cancelled_unless_it_continued(tmp_path: Path) -> None:
    begun = [claude_user("u1", None, "Go"), claude_reply("a1", "u1", "m1", claude_call("t1"))]
    stop = claude_user("u2", "a1", [{"type": "text", "text": "[Request interrupted by user for tool use]"}])
    run = session(tmp_path, *begun, stop)
    assert (run.status, run.stop_reason) == ("cancelled", "cancelled")
    run = session(tmp_path, *begun, stop, claude_user("u3", "u2", "Go on"), claude_reply("a2", "u3", "m2", "Done."))
    assert run.status == "unknown" and [text for _, text in said(run)][1].startswith("[Request interrupted")


def test_api_error_ends_the_run_or_becomes_a_warning(tmp_path: Path) -> None:
    begun = [claude_user("u1", None, "Go"), claude_reply("a1", "u1", "m1", "On it.", claude_call("t1"))]
    zero = {"model": "<synthetic>", "usage": {"input_tokens": 0, "output_tokens": 0}}
    error = claude_reply("e1", "a1", "m0", "API Error: 529 Overloaded", isApiErrorMessage=True, message=zero)
    run = session(tmp_path, *begun, error)
    assert (run.status, run.stop_reason, len(run.rounds)) == ("failed", "error", 1)
    assert run.error is not None and run.error.message == "API Error: 529 Overloaded"
    run = session(tmp_path, *begun, error, claude_reply("a2", "e1", "m2", "Done."))
    assert run.status == "unknown" and "API Error: 529 Overloaded" in run.warnings


def test_text_typed_while_the_agent_worked_appears_once(tmp_path: Path) -> None:
    def queue(operation: str, **more: Any) -> dict[str, Any]:
        return {"type": "queue-operation", "operation": operation, "sessionId": "s-1"} | more

    typed = {"type": "attachment", "uuid": "t", "parentUuid": "a1", "sessionId": "s-1"}
    typed["attachment"] = {"type": "queued_command", "prompt": "And the tests"}
    run = session(
        tmp_path,
        claude_user("u1", None, "Go"),
        claude_reply("a1", "u1", "m1", claude_call("t1")),
        queue("enqueue", content="<task-notification>done</task-notification>"),
        queue("enqueue", content="Check again"),
        queue("remove"),
        queue("enqueue", content="And the tests"),
        queue("remove"),
        typed,
        queue("enqueue", content="Not this"),
        queue("popAll"),
        claude_result("r1", "a1", "t1", "ok"),
        claude_reply("a2", "r1", "m2", "Done."),
    )
    assert said(run) == [("", "Go"), ("", "Check again"), ("", "And the tests")]


def test_pictures_costs_and_other_models_are_kept(tmp_path: Path) -> None:
    picture = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PICTURE}}
    run = session(
        tmp_path,
        claude_user("u1", None, [{"type": "text", "text": "What is this?"}, picture]),
        claude_reply("a1", "u1", "m1", claude_call("t1", "Read"), costUSD=0.25, durationMs=2000, message={"usage": {}}),
        claude_result("r1", "a1", "t1", [picture]),
        claude_reply("a2", "r1", "m2", "A picture.", message={"model": "claude-y"}),
    )
    image = Image("image/png", b"\x89PNG")
    assert image in run.messages[0].parts and run.rounds[0].results[0].parts == (image,)
    assert (run.rounds[0].usage.cost, run.rounds[0].usage.input, run.rounds[0].seconds) == (0.25, None, None)
    metadata = [event.metadata for event in run.events if isinstance(event, ModelReplied)]
    assert metadata == [{"response_id": "m1"}, {"model": "claude-y", "response_id": "m2"}]


def test_todo_list_of_a_session_is_tracked() -> None:
    run = load_trace(WEB)
    assert [(todo.id, todo.status) for todo in run.todos] == [
        (1, "completed"),
        (2, "completed"),
        (3, "completed"),
        (4, "in-progress"),
        (5, "not-started"),
    ]
    assert run.rounds[2].completed == (1, 2, 3)


def test_damaged_line_is_reported_and_the_rest_is_read(tmp_path: Path) -> None:
    lines = REPRESENTATIVE.read_text().splitlines(keepends=True)
    for damage in ("7\n", '{"type": "user", "uuid": "x", "sessionId": "s", "message": 3}\n'):
        path = tmp_path / "damaged.jsonl"
        path.write_text("".join([*lines[:3], damage, *lines[3:]]))
        with pytest.raises(TraceError, match="line 4"):
            load_traces(path)
        runs = load_traces(path, strict=False)
        assert (len(runs), len(runs[0].rounds)) == (1, 5) and runs.problems[0].position == "line 4"
    path.write_text("".join(lines)[:-40])
    runs = load_traces(path, strict=False)
    assert len(runs[0].rounds) == 5 and "cut off" in runs.problems[0].message


def test_compressed_session_without_leading_messages_is_recognized(tmp_path: Path) -> None:
    snapshot = {"type": "file-history-snapshot", "messageId": "x", "snapshot": {}}
    lines = [snapshot, claude_user("u1", None, "Go"), claude_reply("a1", "u1", "m1", "Done.")]
    plain = write_lines(tmp_path / "plain.jsonl", lines)
    packed = tmp_path / "session.jsonl.gz"
    packed.write_bytes(gzip.compress(plain.read_bytes()))
    assert format_of(trace_file(packed)).NAME == "claude_code"
    assert replies(load_trace(packed)) == [("Done.", [])]
