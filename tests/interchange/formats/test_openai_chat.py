"""OpenAI's chat API: every form of file with its messages is read completely."""

from __future__ import annotations

import base64
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from trace_documents import document, lines

from agentnb import load_trace, load_traces
from agentnb.core.log.events import ModelReplied
from agentnb.core.usage import Usage
from agentnb.errors import TraceError

LOOK = {"id": "c1", "type": "function", "function": {"name": "look", "arguments": '{"at": "tower"}'}}
ASKS = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "How high?"}]
TALK = [
    *ASKS,
    {"role": "assistant", "content": None, "tool_calls": [LOOK], "function_call": None},
    {"role": "tool", "tool_call_id": "c1", "name": "look", "content": [{"type": "text", "text": "7 m"}]},
    {"role": "assistant", "content": "It is 7 m."},
]
READ = ["user: How high?", 'assistant: look {"at": "tower"}', "tool: -> 7 m", "assistant: It is 7 m."]
TOOLS = [{"type": "function", "function": {"name": "look", "description": "Looks.", "parameters": {"type": "object"}}}]


def completion(message: dict[str, Any], finish: str = "stop", **more: Any) -> dict[str, Any]:
    choice = {"index": 0, "message": {"role": "assistant", **message}, "finish_reason": finish}
    return {"id": "r", "object": "chat.completion", "created": 1_700_000_000, "model": "gpt-x-1", "choices": [choice], **more}


def test_every_file_layout_yields_the_same_conversation(tmp_path: Path, subtests: pytest.Subtests) -> None:
    calls, ends = completion({"content": None, "tool_calls": [LOOK]}, "tool_calls"), completion({"content": "It is 7 m."})
    pairs = [
        {"request": {"model": "gpt-x", "messages": ASKS}, "response": calls},
        {"request": {"model": "gpt-x", "messages": TALK[:4]}, "response": {"body": ends}},
    ]
    forms: dict[str, Any] = {
        "a list of messages.json": TALK,
        "a request.json": {"model": "gpt-x", "messages": TALK, "tools": TOOLS},
        "a list of requests.json": [{"messages": TALK}],
        "a list of lists.json": [TALK],
        "lines of requests.jsonl": [{"messages": TALK}] * 2,
        "a message a line.jsonl": TALK,
        "a request and its response.json": pairs[1],
        "pairs.json": pairs,
        "lines of pairs.jsonl": pairs,
        "a request with choices.json": {"messages": TALK[:4], "choices": ends["choices"]},
        "a batch.jsonl": [{"custom_id": "a", "method": "POST", "body": {"messages": TALK}}] * 2,
        "input and output.json": {"input": {"messages": TALK[:4]}, "output": ends},
    }
    for name, value in forms.items():
        with subtests.test(name):
            runs = load_traces(document(tmp_path, value, name))
            assert len(runs) == (2 if name in ("lines of requests.jsonl", "a batch.jsonl") else 1)
            assert lines(runs[0]) == READ and runs[0].system == "Be brief."
            has_end = any(word in name for word in ("response", "pairs", "choices", "output"))
            assert runs[0].status == ("completed" if has_end else "unknown")
            assert runs[0].origin is not None and runs[0].origin.format == "openai_chat"


def test_response_has_usage_times_model_and_finish_reason(tmp_path: Path) -> None:
    usage = {
        "prompt_tokens": 9,
        "completion_tokens": 4,
        "prompt_tokens_details": {"cached_tokens": 3},
        "completion_tokens_details": {"reasoning_tokens": 2},
        "cost": 0.5,
    }
    request = {"model": "gpt-x", "messages": ASKS, "tools": TOOLS, "temperature": 0, "api_key": "k", "tool_choice": None}
    answer = completion({"content": "7 m", "reasoning_content": "Hm."}, usage=usage)
    run = load_trace(document(tmp_path, {"request": request, "response": answer}))
    assert run.rounds[0].usage == Usage(9, 4, cache_read=3, reasoning=2, cost=0.5)
    assert (run.model, run.stop_reason, run.rounds[0].stop_reason) == ("gpt-x", "natural", "stop")
    assert [(tool.name, tool.description, tool.input_schema) for tool in run.tools] == [("look", "Looks.", {"type": "object"})]
    assert run.settings["recorded"] == {"temperature": 0}
    assert lines(run) == ["user: How high?", "assistant: (Hm.)", "assistant: 7 m"] and list(run.warnings) == []
    assert [event.at for event in run.events if isinstance(event, ModelReplied)] == [datetime.fromtimestamp(1_700_000_000, UTC)]


def test_run_status_follows_from_the_last_reply(tmp_path: Path, subtests: pytest.Subtests) -> None:
    for finish, message, ended in (
        ("stop", {"content": "7 m"}, ("completed", "natural")),
        ("length", {"content": "7"}, ("failed", "reply_cut")),
        ("content_filter", {"content": ""}, ("stopped", "refusal")),
        ("stop", {"content": None, "refusal": "No."}, ("stopped", "refusal")),
        ("tool_calls", {"content": None, "tool_calls": [LOOK]}, ("interrupted", "interrupted")),
        ("odd", {"content": "7 m"}, ("unknown", None)),
    ):
        with subtests.test(finish, message=message):
            run = load_trace(document(tmp_path, {"request": {"messages": ASKS}, "response": completion(message, finish)}))
            assert (run.status, run.stop_reason) == ended
            assert run.text == (message.get("content") or message.get("refusal") or "")
    assert load_trace(document(tmp_path, TALK)).stop_reason in ("", None)


def test_error_response_fails_the_run_unless_it_was_retried(tmp_path: Path) -> None:
    failed = {"request": {"messages": ASKS}, "response": {"error": {"type": "rate_limit", "message": "Too many."}}}
    run = load_trace(document(tmp_path, failed))
    assert (run.status, str(run.error)) == ("failed", "rate_limit: Too many.")
    again = {"request": {"messages": ASKS}, "response": completion({"content": "7 m"})}
    run = load_trace(document(tmp_path, [failed, again]))
    assert run.status == "completed" and len(run.rounds) == 1
    assert any("rate_limit: Too many." in warning for warning in run.warnings)


def test_parts_of_every_kind_become_pictures_or_text(tmp_path: Path) -> None:
    data = base64.b64encode(b"12345").decode()
    content = [
        {"type": "text", "text": "See"},
        {"type": "image_url", "image_url": {"url": f"data:image/gif;base64,{data}"}},
        {"type": "image_url", "image_url": {"url": "https://example.org/a.png"}},
        {"type": "input_audio", "input_audio": {"data": data, "format": "wav"}},
        {"type": "file", "file": {"filename": "a.pdf", "file_data": data}},
    ]
    spoken = {"role": "assistant", "content": None, "audio": {"id": "a", "transcript": "Aloud."}}
    run = load_trace(document(tmp_path, [{"role": "user", "content": content}, spoken]))
    assert lines(run) == [
        "user: See",
        "user: <image/gif 5>",
        "user: [picture: https://example.org/a.png]",
        "user: [audio: wav]",
        "user: [file: a.pdf]",
        "assistant: Aloud.",
    ]


def test_calls_keep_their_results_with_any_ids_and_arguments(tmp_path: Path) -> None:
    def call(name: str, arguments: Any, call_id: str | None) -> dict[str, Any]:
        return {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}

    def turn(made: dict[str, Any], result: Any) -> list[dict[str, Any]]:
        return [
            {"role": "assistant", "content": "", "tool_calls": [made]},
            {"role": "tool", "tool_call_id": made["id"], "content": result},
        ]

    told = [
        {"role": "user", "content": "Go"},
        *turn(call("a", '{"x": 1}', "same"), "one"),
        *turn(call("a", {"x": 2}, "same"), "two"),
        *turn(call("a", "{broken", "b"), {"plain": 3}),
        *turn(call("a", "", None), None),
        {"role": "assistant", "content": None, "function_call": {"name": "old", "arguments": '{"y": 1}'}},
        {"role": "function", "name": "old", "content": "five"},
        {"role": "assistant", "tool_calls": [{"id": "z", "type": "custom", "custom": {"name": "sql", "input": "select"}}]},
    ]
    run = load_trace(document(tmp_path, told))
    assert lines(run)[1:] == [
        'assistant: a {"x": 1}',
        "tool: -> one",
        'assistant: a {"x": 2}',
        "tool: -> two",
        'assistant: a "{broken"',
        'tool: -> {"plain": 3}',
        "assistant: a {}",
        "tool: -> ",
        'assistant: old {"y": 1}',
        "tool: -> five",
        'assistant: sql {"input": "select"}',
        "tool: ! -> The trace has no result of this call. Whether it took effect is not known.",
    ]
    assert run.status == "interrupted"


def test_each_conversation_in_a_list_is_a_run(tmp_path: Path) -> None:
    other = [{"role": "user", "content": "Who?"}, {"role": "assistant", "content": "I."}]
    runs = load_traces(document(tmp_path, [{"messages": TALK, "score": 1}, {"messages": other}, {"messages": TALK[:2]}]))
    assert [run.text for run in runs] == ["It is 7 m.", "I.", ""] and len({run.id for run in runs}) == 3
    assert [run.origin.position for run in runs if run.origin] == ["0", "1", "2"]
    assert runs[2].status == "interrupted"


def test_damaged_parts_are_omitted_and_reported(tmp_path: Path) -> None:
    path = document(tmp_path, [{"messages": TALK}, 7, {"messages": [*ASKS, {"role": "tool", "content": "x"}]}], "a.jsonl")
    path.write_text(path.read_text(encoding="utf-8")[:-9], encoding="utf-8")
    with pytest.raises(TraceError, match="line 2"):
        load_traces(path)
    runs = load_traces(path, strict=False)
    assert len(runs) == 1 and [problem.position for problem in runs.problems] == ["line 2", "line 3"]
    broken = document(tmp_path, [{"messages": TALK}, {"messages": [*ASKS, {"role": "assistant", "tool_calls": 7}]}])
    runs = load_traces(broken, strict=False)
    assert len(runs) == 1 and [problem.position for problem in runs.problems] == ["1"]


def test_records_of_other_products_are_rejected(tmp_path: Path, subtests: pytest.Subtests) -> None:
    for name, value in {
        "roles of others": [{"role": "narrator", "content": 7}],
        "no content": [{"role": "user"}],
        "a trajectory": {"messages": TALK, "trajectory_format": "x"},
        "embeddings": {"model": "m", "input": "text", "encoding_format": "float"},
    }.items():
        with subtests.test(name), pytest.raises(TraceError, match="not in a format"):
            load_trace(document(tmp_path, value))
