"""Logs of Inspect: JSON and archives."""

from __future__ import annotations

import base64
import json
import zipfile
from pathlib import Path
from typing import Any

import pytest
from benchmark_files import FILES, calls, loaded, recorded, records, results, runs_of, said

from agentnb import Run, load_trace, load_traces
from agentnb.core.messages import Image, Thinking
from agentnb.core.usage import Usage
from agentnb.errors import TraceError
from agentnb.interchange.files import iter_traces
from agentnb.interchange.formats import inspect_log

LONG = "a" * 32
ASKED = {"id": "m1", "role": "user", "content": "What is in a.txt?", "source": "input"}
READS = {
    "id": "m2",
    "role": "assistant",
    "content": [
        {"type": "reasoning", "reasoning": "I must look.", "signature": "sig"},
        {"type": "reasoning", "reasoning": "x" * 9, "redacted": True, "summary": "It looks."},
        {"type": "text", "text": "I look."},
    ],
    "tool_calls": [
        {"id": "c1", "function": "read", "arguments": {"path": "a.txt"}, "type": "function"},
        {"id": "c2", "function": "read", "arguments": {}, "parse_error": "no JSON"},
    ],
    "model": "m-1",
}
RESULTS = [
    {"id": "m3", "role": "tool", "tool_call_id": "c1", "function": "read", "content": f"It says attachment://{LONG}."},
    {
        "id": "m4",
        "role": "tool",
        "tool_call_id": "c2",
        "function": "read",
        "content": "",
        "error": {"type": "parsing", "message": "no JSON"},
    },
]
ANSWERS = {"id": "m5", "role": "assistant", "content": "Ada's words."}


def model_event(reply: Any, at: int, span: str = "", **more: Any) -> dict[str, Any]:
    output = {
        "choices": [{"message": reply, "stop_reason": "stop"}],
        "usage": {"input_tokens": 9, "output_tokens": 2, "total_tokens": 11},
        "time": 1.5,
    }
    event = {
        "event": "model",
        "model": "m",
        "input": [],
        "timestamp": f"2026-01-01T00:00:0{at}+00:00",
        "output": output if reply else {"choices": []},
    }
    return event | {"span_id": span, "completed": f"2026-01-01T00:00:0{at + 1}+00:00"} | more


def sample(*messages: Any, **more: Any) -> dict[str, Any]:
    return {"id": "task-1", "epoch": 2, "input": "What is in a.txt?", "target": "x", "messages": [*messages]} | more


def log(*samples: Any, status: str = "success", **more: Any) -> dict[str, Any]:
    about = {"task": "reading", "task_id": "t", "task_version": 3, "model": "openai/gpt-4o", "run_id": "r", "solver": "react"}
    return {"version": 2, "status": status, "eval": about, "samples": [*samples]} | more


def run_of(path: Path, *messages: Any, status: str = "success", **more: Any) -> Run:
    return runs_of(path / "log.json", log(sample(*messages, **more), status=status))[0]


def eval_file(path: Path, members: dict[str, Any]) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, value in members.items():
            archive.writestr(name, value if isinstance(value, bytes) else json.dumps(value))
    return path


# Samples of Inspect itself


def test_each_sample_and_epoch_in_an_archive_is_a_run() -> None:
    runs = load_traces(FILES / "inspect/log_streaming.eval")
    with zipfile.ZipFile(FILES / "inspect/log_streaming.eval") as archive:
        names = [name for name in archive.namelist() if name.startswith("samples/")]
        samples = [json.loads(archive.read(name)) for name in names]
    assert [(run.origin.position, run.origin.task, run.origin.trial) for run in runs if run.origin] == [
        (name, str(one["id"]), str(one["epoch"])) for name, one in zip(names, samples, strict=True)
    ]
    for run, one in zip(runs, samples, strict=True):
        assert [run.system, *[message.text for message in run.messages]] == [message["content"] for message in one["messages"]]
        assert (run.usage.input, run.usage.output) == tuple(
            one["output"]["usage"][name] for name in ("input_tokens", "output_tokens")
        )
        assert recorded(run)["scores"] == one["scores"] and recorded(run)["eval"]["task"] == "popularity"
        assert (run.status, run.stop_reason, run.model) == ("completed", "natural", "azureai/Meta-Llama-3-1-405B-Instruct-jqf")
    assert len({run.id for run in runs}) == 4


def test_zstandard_frames_and_chunks_are_read_without_an_optional_dependency(subtests: pytest.Subtests) -> None:
    long = "3 is the sum. " + "It was added with care. " * 10
    for form in ("zstandard", "frames", "chunked"):
        with subtests.test(form):
            passed, failed = load_traces(FILES / f"inspect/{form}.eval")
            assert [one.outcome for one in (passed, failed)] == ["passed", "failed"]
            assert [(one.usage.input, one.usage.output) for one in (passed, failed)] == [(300, 30), (302, 30)]
            assert said(passed)[-1][2] == "The answer is 3." and results(passed) == [(long, None)]
            assert [(call.name, call.arguments) for call in calls(passed)] == [("add", {"a": 1, "b": 2})]
            assert recorded(failed)["metadata"] == {"level": 1} and recorded(passed)["target"] == "3"
            assert records(passed)[0].seconds is not None and passed.tools[0].description == "Add two numbers."
            assert passed.origin is not None and passed.origin.benchmark == "sums"
            assert (passed.origin.task, passed.origin.trial) == ("1", "1")


def test_reply_has_usage_time_and_duration_of_its_call() -> None:
    run = load_trace(FILES / "inspect/log_read_sample.eval")
    assert run.rounds[0].usage == Usage(66, 3) and run.rounds[0].model_seconds == pytest.approx(0.28, abs=0.01)
    assert run.started_at is not None and run.started_at.isoformat() == "2025-07-05T13:59:48.945242+00:00"
    assert run.seconds == 0.413 and run.origin is not None and run.origin.position == ""
    assert recorded(run)["sample_uuid"] == "LKmyJnSm3fgU8aanLnfPkL"


def test_tool_errors_become_error_results() -> None:
    run = load_trace(FILES / "inspect/log_tool_call_error.json")
    messages = loaded("inspect/log_tool_call_error.json")["samples"][0]["messages"]
    assert all(record.result is not None and record.result.is_error for record in records(run))
    kinds = {"parsing": "invalid_arguments", "unknown": "tool_error"}
    found = [message["error"]["type"] for message in messages]
    assert [code for _, code in results(run)] == [kinds.get(kind, kind) for kind in found]
    assert results(run)[-1][0].endswith("The tool output limit of 10 MiB was exceeded.") and run.prompt == "..."


# Parts of messages


def test_message_keeps_reasoning_calls_parse_errors_and_attachments(tmp_path: Path) -> None:
    events = [
        model_event(READS, 1),
        {"event": "tool", "id": "c1", "completed": "2026-01-01T00:00:05+00:00", "working_time": 0.5},
    ]
    tools = [{"name": "read", "description": "Read.", "parameters": {"type": "object"}}]
    run = run_of(
        tmp_path,
        ASKED,
        READS,
        *RESULTS,
        ANSWERS,
        events=[{**events[0], "tools": tools}, events[1], model_event(ANSWERS, 6)],
        attachments={LONG: "Ada"},
    )
    parts = [part for part in run.messages[1].parts if isinstance(part, Thinking)]
    assert parts == [Thinking("I must look.", {"signature": "sig"}), Thinking("It looks.", {"redacted": True})]
    assert [(call.name, call.arguments, call.id, call.provider_metadata) for call in calls(run)] == [
        ("read", {"path": "a.txt"}, "c1", None),
        ("read", {}, "c2", {"parse_error": "no JSON"}),
    ]
    assert results(run) == [("It says Ada.", None), ("no JSON", "invalid_arguments")]
    assert (records(run)[0].seconds, run.tools[0].description, run.agent) == (0.5, "Read.", "react")
    assert [round_.usage for round_ in run.rounds] == [Usage(9, 2)] * 2 and recorded(run)["eval"]["task_version"] == 3


def test_pictures_are_kept_while_audio_and_files_become_text(tmp_path: Path) -> None:
    picture = "data:image/png;base64," + base64.b64encode(b"png").decode()
    content = [
        {"type": "text", "text": "See."},
        {"type": "image", "image": f"attachment://{LONG}"},
        {"type": "image", "image": "https://example.org/a.png"},
        {"type": "audio", "audio": "data:audio/mp3;base64,AAAA", "format": "mp3"},
        {"type": "document", "document": "notes.pdf", "filename": "notes.pdf"},
        {"type": "data", "data": {}},
    ]
    run = run_of(tmp_path, {"role": "user", "content": content}, ANSWERS, attachments={LONG: picture})
    assert Image("image/png", b"png") in run.messages[0].parts
    assert run.prompt == "See.[picture: https://example.org/a.png][audio: mp3 26 characters][document: notes.pdf notes.pdf]"


def test_tool_run_by_the_provider_is_a_call_with_result(tmp_path: Path) -> None:
    used = {
        "type": "tool_use",
        "tool_type": "web_search",
        "id": "w1",
        "name": "web_search",
        "arguments": '{"q": "x"}',
        "result": "Found.",
        "error": None,
    }
    run = run_of(tmp_path, ASKED, {"role": "assistant", "content": [used, {"type": "text", "text": "It is."}]})
    assert [(call.name, call.arguments) for call in calls(run)] == [("web_search", {"q": "x"})] and results(run) == [
        ("Found.", None)
    ]


def test_cache_tokens_count_as_input_tokens(tmp_path: Path) -> None:
    usage = {
        "input_tokens": 5,
        "output_tokens": 2,
        "total_tokens": 107,
        "input_tokens_cache_read": 90,
        "input_tokens_cache_write": 10,
    }
    event = model_event(ANSWERS, 1)
    event["output"]["usage"] = {**usage, "reasoning_tokens": 1, "total_cost": 0.25}
    run = run_of(tmp_path, ASKED, ANSWERS, events=[event])
    assert run.rounds[0].usage == Usage(105, 2, 90, 10, 1, 0.25)


def test_failed_model_call_becomes_a_warning_before_the_reply(tmp_path: Path) -> None:
    run = run_of(tmp_path, ASKED, ANSWERS, events=[model_event(None, 1, error="503"), model_event(ANSWERS, 2)])
    assert list(run.warnings) == ["A model call failed: 503"] and run.rounds[0].usage == Usage(9, 2)


def test_leading_system_messages_are_joined(tmp_path: Path) -> None:
    run = run_of(
        tmp_path, {"role": "system", "content": "Be kind."}, {"role": "system", "content": "Be brief."}, ASKED, ANSWERS
    )
    assert (run.system, run.prompt) == ("Be kind.\n\nBe brief.", ASKED["content"])


# Sub-agents


def test_agent_whose_replies_lie_outside_the_messages_is_nested(tmp_path: Path) -> None:
    inner_said = {"id": "i1", "role": "assistant", "content": "I read it."}
    asks = {"id": "m2", "role": "assistant", "content": "", "tool_calls": [{"id": "c1", "function": "reader", "arguments": {}}]}
    events = [
        {"event": "span_begin", "id": "main", "name": "react", "type": "agent"},
        model_event(asks, 1, "main"),
        {"event": "span_begin", "id": "tool", "parent_id": "main", "name": "reader", "type": "tool"},
        {"event": "span_begin", "id": "sub", "parent_id": "tool", "name": "reader", "type": "agent"},
        model_event(inner_said, 2, "sub", input_refs=[[0, 2]]),
        {"event": "span_end", "id": "sub"},
        {"event": "tool", "id": "c1", "span_id": "tool", "agent_span_id": "sub"},
        model_event(ANSWERS, 4, "main"),
    ]
    pool = {"messages": [{"role": "system", "content": "You read."}, {"role": "user", "content": "Read a.txt."}]}
    more = {"events": events, "events_data": pool}
    answer = {"id": "m3", "role": "tool", "tool_call_id": "c1", "function": "reader", "content": "I read it."}
    outer, nested = runs_of(tmp_path / "log.json", log(sample(ASKED, asks, answer, ANSWERS, **more)))
    assert (nested.agent, nested.parent_id, nested.id) == ("reader", outer.id, f"{outer.id}-sub")
    assert (nested.system, nested.prompt, nested.text, nested.usage) == ("You read.", "Read a.txt.", "I read it.", Usage(9, 2))
    assert [call.name for call in calls(outer)] == ["reader"] and [round_.usage for round_ in outer.rounds] == [Usage(9, 2)] * 2


def test_events_inside_a_tool_in_early_logs_are_nested(tmp_path: Path) -> None:
    inner = model_event({"role": "assistant", "content": "I read it."}, 2, input=[{"role": "user", "content": "Read."}])
    events = [{"event": "tool", "id": "c1", "function": "reader", "events": [inner]}, model_event(ANSWERS, 3)]
    outer, nested = runs_of(tmp_path / "log.json", log(sample(ASKED, ANSWERS, events=events)))
    assert (nested.agent, nested.prompt, nested.text, nested.parent_id) == ("reader", "Read.", "I read it.", outer.id)


def test_model_calls_made_by_scorers_are_excluded(tmp_path: Path) -> None:
    grades = model_event({"id": "g", "role": "assistant", "content": "GRADE: C"}, 5)
    runs = runs_of(tmp_path / "log.json", log(sample(ASKED, ANSWERS, events=[model_event(ANSWERS, 1), grades])))
    assert len(runs) == 1 and said(runs[0])[-1][2] == "Ada's words." and runs[0].usage == Usage(9, 2)


# How samples ended


def test_run_status_follows_from_limit_error_or_answer(tmp_path: Path, subtests: pytest.Subtests) -> None:
    trouble = {"message": "no key", "traceback": "Traceback\n  File x\nmodels.KeyMissing: no key"}
    cases: list[tuple[tuple[Any, ...], dict[str, Any], tuple[str, str | None]]] = [
        ((ASKED, ANSWERS), {}, ("completed", "natural")),
        ((ASKED, READS), {}, ("completed", None)),
        ((ASKED, READS), {"status": "started"}, ("interrupted", "interrupted")),
        ((ASKED, READS), {"status": "cancelled"}, ("cancelled", "cancelled")),
        ((ASKED, READS), {"limit": {"type": "token", "limit": 1000}}, ("limited", "max_tokens")),
        ((ASKED, READS), {"limit": {"type": "message", "limit": 10}}, ("limited", "max_messages")),
        ((ASKED, READS), {"limit": {"type": "context", "limit": 1}}, ("limited", "context")),
        ((ASKED, READS), {"limit": {"type": "operator", "limit": 1}}, ("cancelled", "operator")),
        ((ASKED,), {"error": trouble}, ("failed", "error")),
    ]
    for messages, more, ended in cases:
        with subtests.test(str(more)):
            run = run_of(tmp_path, *messages, **more)
            assert (run.status, run.stop_reason) == ended
            error = ("KeyMissing", "no key") if "error" in more else None
            assert (run.error and (run.error.type, run.error.message)) == error
            limit = more["limit"]["limit"] if ended[0] == "limited" else None
            assert (run.limit and run.limit.value) == limit


# Files


def test_archive_of_an_unfinished_evaluation_is_read(tmp_path: Path) -> None:
    whole = log()
    members = {
        "_journal/start.json": {"version": 2, "eval": whole["eval"]},
        "samples/task-1_epoch_2.json": sample(ASKED, ANSWERS),
    }
    run = load_trace(eval_file(tmp_path / "log.eval", members))
    assert (run.text, run.model, recorded(run)["eval"]["status"]) == ("Ada's words.", "openai/gpt-4o", "started")


def test_unreadable_archive_member_names_only_the_known_cause(tmp_path: Path, subtests: pytest.Subtests) -> None:
    path = eval_file(tmp_path / "log.eval", {"header.json": log(), "samples/1_epoch_1.json": sample(ASKED, ANSWERS)})
    whole, of_today = path.read_bytes(), (FILES / "inspect/zstandard.eval").read_bytes()
    directory = whole.rindex(b"PK\x01\x02")  # of the sample, as zipfile expects
    with zipfile.ZipFile(FILES / "inspect/zstandard.eval") as archive:
        names = [member.filename for member in archive.infolist()]
    found = of_today.index(b"PK\x01\x02")
    for _ in range(names.index("samples/1_epoch_1.json")):
        found = of_today.index(b"PK\x01\x02", found + 1)
    cases = {
        "password": (whole, directory + 8, b"\1", "is protected by a password"),
        "method": (whole, directory + 10, b"\x62", "cannot be unpacked: That compression method is not supported"),
        "check sum": (whole, directory + 16, b"0000", "cannot be unpacked: Bad CRC-32"),
        "check sum of zstandard": (of_today, found + 16, b"0000", "cannot be unpacked: its checksum is wrong"),
    }
    for name, (data, place, change, error) in cases.items():
        with subtests.test(name):
            path.write_bytes(data[:place] + change + data[place + len(change) :])
            with pytest.raises(TraceError, match=rf"samples/1_epoch_1\.json.* {error}") as raised:
                load_traces(path)
            assert "password" not in str(raised.value) or name == "password"


def test_damaged_sample_is_reported_and_the_others_are_read(tmp_path: Path) -> None:
    members = {
        "header.json": {key: value for key, value in log().items() if key != "samples"},
        "samples/1_epoch_1.json": b'{"id": 1, "mess',
        "samples/2_epoch_1.json": 7,
        "samples/3_epoch_1.json": sample(ASKED, 7, ANSWERS),
    }
    path = eval_file(tmp_path / "log.eval", members)
    runs = load_traces(path, strict=False)
    assert [run.text for run in runs] == ["Ada's words."]
    assert [problem.position for problem in runs.problems] == [
        "samples/1_epoch_1.json",
        "samples/2_epoch_1.json",
        "samples/3_epoch_1.json, message 1",
    ]
    with pytest.raises(TraceError, match=r"samples/1_epoch_1\.json"):
        load_traces(path)


@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_last_version_of_a_sample_written_twice_counts(tmp_path: Path) -> None:
    path = eval_file(tmp_path / "log.eval", {"header.json": log()})
    with zipfile.ZipFile(path, "a") as archive:
        for text in ("Old.", "New."):
            archive.writestr("samples/1_epoch_1.json", json.dumps(sample(ASKED, {"role": "assistant", "content": text})))
    assert [run.text for run in load_traces(path)] == ["New."]


def test_log_without_samples_is_reported(tmp_path: Path) -> None:
    runs = runs_of(tmp_path / "log.json", log(), strict=False)
    assert runs == [] and "no samples" in str(runs.problems[0])


def test_archived_samples_are_read_one_by_one_with_bounds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[str] = []
    member = inspect_log.read_member

    def counted(names: zipfile.ZipFile, name: str, limit: int) -> bytes:
        read.append(name)
        return member(names, name, limit)

    monkeypatch.setattr(inspect_log, "read_member", counted)
    members = {"header.json": log(), **{f"samples/{number}_epoch_1.json": sample(ASKED, ANSWERS) for number in range(3)}}
    path = eval_file(tmp_path / "log.eval", members)
    first = next(iter_traces(path))
    assert first.text == "Ada's words." and read == ["header.json", "samples/0_epoch_1.json"]
    monkeypatch.setattr(inspect_log, "MAX_HELD_BYTES", 100)
    with pytest.raises(TraceError, match="expands to more than"):
        load_traces(path)
