"""OpenAI's Responses API: items, requests and responses are read, with server-side calls."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import pytest
from trace_documents import document, lines

from agentnb import load_trace, load_traces
from agentnb.core.messages import Thinking
from agentnb.core.usage import Usage
from agentnb.errors import TraceError
from agentnb.models.providers.openai_responses import NAME

ASKS = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "How high?"}]}
THINKS = {"type": "reasoning", "id": "rs", "summary": [{"type": "summary_text", "text": "Hm."}]}
CALLS = {"type": "function_call", "call_id": "c1", "name": "look", "arguments": '{"at": "tower"}'}
RETURNS = {"type": "function_call_output", "call_id": "c1", "output": [{"type": "input_text", "text": "7 m"}]}
SAYS = {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "It is 7 m.", "annotations": []}]}
TALK = [ASKS, THINKS, CALLS, RETURNS, SAYS]
READ = ["user: How high?", "assistant: (Hm.)", 'assistant: look {"at": "tower"}', "tool: -> 7 m", "assistant: It is 7 m."]


def response(*output: Any, **more: Any) -> dict[str, Any]:
    return {"object": "response", "id": "r1", "model": "gpt-x-1", "status": "completed", "output": [*output], **more}


def test_every_file_layout_yields_the_same_conversation(tmp_path: Path, subtests: pytest.Subtests) -> None:
    first = {"request": {"model": "m", "input": [ASKS]}, "response": response(THINKS, CALLS)}
    repeats = {"request": {"model": "m", "input": TALK[:4]}, "response": response(SAYS, id="r2")}
    follows = {"request": {"model": "m", "input": [RETURNS], "previous_response_id": "r1"}, "response": response(SAYS, id="r2")}
    for name, value in {
        "items.json": TALK,
        "a request.json": {"model": "m", "input": TALK},
        "a text as input.json": {"request": {"model": "m", "input": "How high?"}, "response": response(*TALK[1:])},
        "repeated history.json": [first, repeats],
        "lines that follow a stored response.jsonl": [first, follows],
        "an item a line.jsonl": TALK,
        "in a conversation.json": [
            {
                "request": {**one["request"], "conversation": {"id": "v"}, "previous_response_id": None},
                "response": one["response"],
            }
            for one in (first, follows)
        ],
    }.items():
        with subtests.test(name):
            run = load_trace(document(tmp_path, value, name))
            has_end = name not in ("items.json", "a request.json", "an item a line.jsonl")
            assert lines(run) == READ and run.status == ("completed" if has_end else "unknown")
            assert run.origin is not None and run.origin.format == "openai_responses"


def test_server_side_calls_are_read_with_their_results(tmp_path: Path) -> None:
    data = base64.b64encode(b"12345").decode()
    items = [
        {"type": "web_search_call", "id": "w", "status": "completed", "action": {"type": "search", "query": "tower"}},
        {"type": "file_search_call", "id": "f", "queries": ["a"], "status": "completed", "results": [{"text": "found"}]},
        {
            "type": "code_interpreter_call",
            "id": "p",
            "code": "1+1",
            "outputs": [{"type": "logs", "logs": "2"}],
            "status": "completed",
        },
        {"type": "image_generation_call", "id": "i", "status": "completed", "revised_prompt": "cat", "result": data},
        {
            "type": "mcp_call",
            "id": "m",
            "name": "ask",
            "arguments": "{}",
            "output": "yes",
            "error": None,
            "server_label": "wiki",
        },
        {"type": "mcp_call", "id": "n", "name": "ask", "arguments": "{}", "error": {"message": "gone"}, "server_label": "wiki"},
        {"type": "mcp_list_tools", "server_label": "wiki", "tools": [{"name": "ask", "input_schema": {"type": "object"}}]},
        SAYS,
    ]
    usage = {"input_tokens": 9, "output_tokens": 4, "output_tokens_details": {"reasoning_tokens": 1}}
    run = load_trace(document(tmp_path, {"request": {"model": "m", "input": "Go"}, "response": response(*items, usage=usage)}))
    told = lines(run)
    assert told[1:] == [
        "assistant: It is 7 m.",
        'assistant: web_search {"type": "search", "query": "tower"}',
        'assistant: file_search {"queries": ["a"]}',
        'assistant: code_interpreter {"code": "1+1"}',
        'assistant: image_generation {"prompt": "cat"}',
        "assistant: ask {}",
        "assistant: ask {}",
        "tool: -> ",
        "tool: -> found",
        "tool: -> 2",
        "tool: -> <image/png 5>",
        "tool: -> yes",
        "tool: ! -> gone",
    ]
    assert run.status == "completed" and run.is_answered and run.text == "It is 7 m."
    assert [round_.usage for round_ in run.rounds] == [Usage(9, 4, reasoning=1)]
    assert ("ask", {"type": "object"}) in [(tool.name, tool.input_schema) for tool in run.tools]
    made = run.rounds[0].records[4].call.provider_metadata
    assert made == {"server_side": {"type": "mcp_call", "server_label": "wiki"}}


def test_calls_of_other_kinds_and_their_results_are_read(tmp_path: Path) -> None:
    items = [
        ASKS,
        {"type": "custom_tool_call", "call_id": "a", "name": "sql", "input": "select"},
        {"type": "custom_tool_call_output", "call_id": "a", "output": "1"},
        {"type": "local_shell_call", "call_id": "b", "action": {"type": "exec", "command": ["ls"]}},
        {"type": "local_shell_call_output", "call_id": "b", "output": "a.txt", "error": "denied"},
        {"type": "shell_call", "call_id": "s", "action": {"commands": ["ls"]}},
        {
            "type": "shell_call_output",
            "call_id": "s",
            "output": [{"stdout": "b.txt", "stderr": "", "outcome": {"type": "exit"}}],
        },
        {"type": "computer_call", "call_id": "c", "action": {"type": "click", "x": 1}},
        {
            "type": "computer_call_output",
            "call_id": "c",
            "output": {"type": "computer_screenshot", "image_url": "data:image/png;base64,MTI="},
        },
        {"type": "mcp_approval_request", "id": "q", "name": "ask", "arguments": "{}", "server_label": "wiki"},
        {"type": "mcp_approval_response", "approval_request_id": "q", "approve": False, "reason": "no"},
    ]
    run = load_trace(document(tmp_path, items))
    assert [line for line in lines(run) if line.startswith("tool")] == [
        "tool: -> 1",
        "tool: ! -> a.txt",
        "tool: -> b.txt",
        "tool: -> <image/png 2>",
        "tool: -> denied no",
    ]
    assert lines(run)[1] == 'assistant: sql {"input": "select"}' and "no result" not in str(run.warnings)


def test_encrypted_reasoning_is_kept_for_the_next_request(tmp_path: Path) -> None:
    sealed = {"type": "reasoning", "id": "rs", "summary": [], "encrypted_content": "xyz", "status": None}
    run = load_trace(document(tmp_path, [ASKS, sealed, SAYS]))
    kept = {"type": "reasoning", "id": "rs", "summary": [], "encrypted_content": "xyz"}
    assert run.messages[1].parts[0] == Thinking("", {NAME: kept}) and run.text == "It is 7 m."


def test_run_status_follows_from_the_last_response(tmp_path: Path, subtests: pytest.Subtests) -> None:
    refusal = {"type": "message", "role": "assistant", "content": [{"type": "refusal", "refusal": "No."}]}
    for name, answer, ended in (
        ("completed", response(SAYS), ("completed", "natural")),
        (
            "cut",
            response(SAYS, status="incomplete", incomplete_details={"reason": "max_output_tokens"}),
            ("failed", "reply_cut"),
        ),
        ("refused", response(refusal), ("stopped", "refusal")),
        ("cancelled", response(SAYS, status="cancelled"), ("cancelled", "cancelled")),
        ("failed", response(status="failed", error={"code": "server_error", "message": "Broke."}), ("failed", "error")),
        ("calls", response(CALLS), ("interrupted", "interrupted")),
    ):
        with subtests.test(name):
            run = load_trace(document(tmp_path, {"request": {"model": "m", "input": "Go"}, "response": answer}))
            assert (run.status, run.stop_reason) == ended
    failed = response(status="failed", error={"code": "server_error", "message": "Broke."})
    run = load_trace(document(tmp_path, {"request": {"model": "m", "input": "Go"}, "response": failed}))
    assert str(run.error) == "server_error: Broke."


def test_instructions_and_tools_become_those_of_the_run(tmp_path: Path) -> None:
    tools = [{"type": "function", "name": "look", "parameters": {"type": "object"}}, {"type": "web_search"}]
    run = load_trace(document(tmp_path, {"model": "m", "instructions": "Be brief.", "input": [ASKS], "tools": tools}))
    assert (run.system, run.model, [tool.name for tool in run.tools]) == ("Be brief.", "m", ["look", "web_search"])


def test_damaged_parts_are_omitted_and_reported(tmp_path: Path) -> None:
    broken = [
        {"model": "m", "input": TALK},
        7,
        {"model": "m", "input": [ASKS, {"type": "reasoning", "summary": 7, "content": [7]}]},
    ]
    runs = load_traces(document(tmp_path, broken, "a.jsonl"), strict=False)
    assert [run.text for run in runs] == ["It is 7 m."] and [problem.position for problem in runs.problems] == [
        "line 2",
        "line 3",
    ]
    with pytest.raises(TraceError, match="line 2"):
        load_traces(tmp_path / "a.jsonl")
