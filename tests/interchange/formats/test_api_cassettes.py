"""Recorded exchanges: requests grouped into conversations, bodies of every form, and streams put together."""

from __future__ import annotations

import base64
import gzip
import json
import zlib
from pathlib import Path
from typing import Any

import pytest
from trace_documents import FILES, document, lines

from agentnb import load_trace, load_traces
from agentnb.core.log.events import ModelReplied
from agentnb.core.usage import Usage
from agentnb.errors import TraceError
from agentnb.interchange.formats import api_cassettes
from agentnb.interchange.yaml_text import load_yaml

CASSETTES = FILES / "api_cassettes"
ASKS = {"role": "user", "content": "How high?"}


def chat(content: str, **more: Any) -> dict[str, Any]:
    return {"choices": [{"message": {"role": "assistant", "content": content}, "finish_reason": "stop"}], **more}


def exchange(asked: Any, answered: Any, code: int = 200, **more: Any) -> dict[str, Any]:
    request = {"method": "POST", "uri": "https://api.example.org/v1/chat/completions", "body": json.dumps(asked)}
    body = answered if isinstance(answered, dict) and ("string" in answered or "base64_string" in answered) else None
    return {
        "request": request,
        "response": {"status": {"code": code}, "body": body or {"string": json.dumps(answered)}},
        **more,
    }


def cassette(folder: Path, *exchanges: Any, name: str = "cassette.json") -> Path:
    return document(folder, {"version": 1, "interactions": [*exchanges]}, name)


def stream(*events: Any) -> str:
    return "".join(f"event: x\ndata: {json.dumps(event)}\n\n" for event in events) + "data: [DONE]\n\n"


def test_cassette_is_read_as_one_run_with_matching_counts() -> None:
    for name, rounds, calls, messages, usage in (
        ("test_anthropic_mcp_servers_stream", 1, 1, 1, Usage(3042, 354, cache_read=0, cache_write=0)),
        ("test_multiple_agent_tool_calls", 4, 2, 2, Usage(291, 38, cache_read=0, reasoning=0)),
        ("test_openai_responses_model_mcp_server_tool", 2, 1, 2, Usage(2316, 979, cache_read=0, reasoning=640)),
    ):
        path = CASSETTES / f"{name}.yaml"
        run = load_trace(path)
        exchanges = load_yaml(path.read_bytes(), name)["interactions"]
        assert (len(run.rounds), sum(len(round_.records) for round_ in run.rounds)) == (rounds, calls)
        assert sum(message.role == "user" for message in run.messages) == messages
        assert (run.status, run.stop_reason, run.usage) == ("completed", "natural", usage)
        assert sum(round_.usage != Usage() for round_ in run.rounds) == len(exchanges)  # each response counts once


def test_conversation_that_switches_apis_is_one_run() -> None:
    run = load_trace(CASSETTES / "test_multiple_agent_tool_calls.yaml")
    assert lines(run) == [
        "user: What is the capital of France?",
        'assistant: get_capital {"country": "France"}',
        "tool: -> Paris",
        "assistant: The capital of France is Paris.\n",
        "user: What is the capital of England?",
        'assistant: get_capital {"country": "England"}',
        "tool: -> London",
        "assistant: The capital of England is London.",
    ]
    assert run.model == "gemini-2.0-flash-exp" and [tool.name for tool in run.tools] == ["get_capital"]


def test_bodies_are_read_in_every_recorded_encoding(tmp_path: Path, subtests: pytest.Subtests) -> None:
    plain = json.dumps(chat("7 m"))
    for name, body in {
        "text": {"string": plain},
        "gzip in base64": {"base64_string": base64.b64encode(gzip.compress(plain.encode())).decode()},
        "deflate in base64": {"encoding": "base64", "string": base64.b64encode(zlib.compress(plain.encode())).decode()},
        "of Ruby": {"encoding": "UTF-8", "string": plain},
    }.items():
        with subtests.test(name):
            assert load_trace(cassette(tmp_path, exchange({"messages": [ASKS]}, body))).text == "7 m"
    with subtests.test("binary in YAML"):
        packed = base64.b64encode(gzip.compress(plain.encode())).decode()
        asked = json.dumps({"messages": [ASKS]})
        (tmp_path / "b.yaml").write_text(
            f"interactions:\n- request:\n    body: '{asked}'\n"
            f"  response:\n    body:\n      string: !!binary |\n        {packed}\n",
            encoding="utf-8",
        )
        assert load_trace(tmp_path / "b.yaml").text == "7 m"
    with subtests.test("an HTTP archive"):
        request = {"url": "https://api.example.org", "postData": {"text": json.dumps({"messages": [ASKS]})}}
        entry = {"request": request, "response": {"status": 200, "content": {"text": plain}}, "time": 1500}
        entry["startedDateTime"] = "2026-01-01T00:00:00Z"
        run = load_trace(document(tmp_path, {"log": {"entries": [entry]}}, "a.har"))
        assert run.text == "7 m" and [event.seconds for event in run.events if isinstance(event, ModelReplied)] == [1.5]


def test_streams_of_each_api_are_assembled_into_responses(tmp_path: Path, subtests: pytest.Subtests) -> None:
    call = {"index": 0, "id": "c", "function": {"name": "look", "arguments": ""}}
    more = {"index": 0, "function": {"arguments": '{"at": 1}'}}
    said = {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "7 m"}]}
    whole = {"object": "response", "status": "completed", "usage": {"input_tokens": 3, "output_tokens": 2}}
    streams: dict[str, tuple[Any, list[Any], list[str]]] = {
        "chat": (
            {"messages": [ASKS]},
            [
                {"choices": [{"index": 0, "delta": {"role": "assistant", "reasoning_content": "H"}}]},
                {"choices": [{"index": 0, "delta": {"reasoning_content": "m", "tool_calls": [call]}}]},
                {"choices": [{"index": 0, "delta": {"tool_calls": [more]}, "finish_reason": "tool_calls"}]},
                {"choices": [], "usage": {"prompt_tokens": 3, "completion_tokens": 2}},
            ],
            ["assistant: (Hm)", 'assistant: look {"at": 1}'],
        ),
        "responses": (
            {"model": "m", "input": [ASKS]},
            [
                {"type": "response.output_item.done", "output_index": 0, "item": said},
                {"type": "response.completed", "response": {**whole, "output": []}},
            ],
            ["assistant: 7 m"],
        ),
        "messages": (
            {"model": "claude-x", "messages": [ASKS]},
            [
                {"type": "message_start", "message": {"type": "message", "role": "assistant", "usage": {"input_tokens": 3}}},
                {"type": "content_block_start", "index": 0, "content_block": {"type": "tool_use", "id": "c", "name": "look"}},
                {"type": "content_block_delta", "index": 0, "delta": {"type": "input_json_delta", "partial_json": '{"at"'}},
                {"type": "content_block_delta", "index": 0, "delta": {"type": "input_json_delta", "partial_json": ": 1}"}},
                {"type": "message_delta", "delta": {"stop_reason": "tool_use"}, "usage": {"output_tokens": 2}},
            ],
            ['assistant: look {"at": 1}'],
        ),
        "contents": (
            {"contents": [{"role": "user", "parts": [{"text": "How high?"}]}]},
            [
                {"candidates": [{"content": {"parts": [{"text": "7"}]}}]},
                {
                    "candidates": [{"content": {"parts": [{"text": " m"}]}, "finishReason": "STOP"}],
                    "usageMetadata": {"promptTokenCount": 3, "candidatesTokenCount": 2},
                },
            ],
            ["assistant: 7 m"],
        ),
    }
    for name, (asked, events, read) in streams.items():
        with subtests.test(name):
            run = load_trace(cassette(tmp_path, exchange(asked, {"string": stream(*events)})))
            assert [line for line in lines(run) if line.startswith("assistant")] == read
            assert (run.usage.input, run.usage.output) == (3, 2)


def test_conversations_of_one_cassette_are_separated(tmp_path: Path) -> None:
    first, second = [ASKS], [{"role": "user", "content": "Who?"}]
    told = {"role": "assistant", "content": "7 m"}
    runs = load_traces(
        cassette(
            tmp_path,
            exchange({"messages": first}, chat("7 m")),
            exchange({"messages": second}, chat("I.")),
            exchange({"messages": [*first, told, {"role": "user", "content": "Sure?"}]}, chat("Yes.")),
            exchange({"messages": first}, chat("8 m")),  # sent to another model: not the same conversation
            exchange({"model": "e", "input": "text"}, {"object": "list", "data": [{"embedding": [1.0]}]}),
            {"request": {"method": "GET", "uri": "https://example.org/a.png"}, "response": {"body": {"string": "x"}}},
        )
    )
    assert [[round_.text for round_ in run.rounds] for run in runs] == [["7 m", "Yes."], ["I."], ["8 m"]]
    assert [run.origin.position for run in runs if run.origin] == ["exchange 0", "exchange 1", "exchange 3"]


def test_retried_request_becomes_a_warning(tmp_path: Path) -> None:
    busy = exchange({"messages": [ASKS]}, {"error": {"message": "Busy."}}, 429)
    run = load_trace(cassette(tmp_path, busy, exchange({"messages": [ASKS]}, chat("7 m"))))
    assert run.status == "completed" and len(run.rounds) == 1 and any("Busy." in warning for warning in run.warnings)
    run = load_trace(cassette(tmp_path, exchange({"messages": [ASKS]}, {"string": "<html>"}, 502)))
    assert (run.status, str(run.error)) == ("failed", "HTTP status 502")
    run = load_trace(cassette(tmp_path, exchange({"messages": [ASKS]}, {"detail": "gone"}, 404)))
    assert (run.status, str(run.error)) == ("failed", "HTTP status 404")


def test_results_match_calls_even_if_the_client_replaced_ids(tmp_path: Path) -> None:
    def contents(*parts: Any) -> dict[str, Any]:
        return {"candidates": [{"content": {"role": "model", "parts": [*parts]}, "finishReason": "STOP"}]}

    asked = {"role": "user", "parts": [{"text": "How high?"}]}
    call = {"id": "own", "type": "function", "function": {"name": "look", "arguments": "{}"}}
    repeated = [ASKS, {"role": "assistant", "tool_calls": [call]}, {"role": "tool", "tool_call_id": "own", "content": "7 m"}]
    first = exchange({"contents": [asked]}, contents({"functionCall": {"name": "look", "args": {}, "id": "g1"}}))
    run = load_trace(cassette(tmp_path, first, exchange({"messages": repeated}, chat("7 m"))))
    assert lines(run) == ["user: How high?", "assistant: look {}", "tool: -> 7 m", "assistant: 7 m"]


def test_endlessly_expanding_body_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(api_cassettes, "MAX_BODY_BYTES", 1000)
    packed = {"base64_string": base64.b64encode(gzip.compress(b" " * 5000)).decode()}
    with pytest.raises(TraceError, match="expands to more than"):
        load_traces(cassette(tmp_path, exchange({"messages": [ASKS]}, packed)))


def test_damaged_parts_are_omitted_and_reported(tmp_path: Path) -> None:
    path = cassette(tmp_path, exchange({"messages": [ASKS]}, chat("7 m")), {"request": 7}, {"response": {}})
    runs = load_traces(path, strict=False)
    assert [run.text for run in runs] == ["7 m"] and [problem.position for problem in runs.problems] == [
        "exchange 1",
        "exchange 2",
    ]
    with pytest.raises(TraceError, match="exchange 1"):
        load_traces(path)
    empty = cassette(tmp_path, {"request": {"uri": "https://example.org"}, "response": {}}, name="other.json")
    with pytest.raises(TraceError, match="contains no exchange with a model API"):
        load_traces(empty)
    (tmp_path / "cut.yaml").write_text("interactions:\n- request: {\n", encoding="utf-8")
    with pytest.raises(TraceError, match="is not YAML"):
        load_traces(tmp_path / "cut.yaml")


def test_request_credentials_are_not_kept(tmp_path: Path) -> None:
    servers = [{"name": "wiki", "url": "https://example.org", "authorization_token": "hidden-1", "headers": {"k": "hidden-2"}}]
    answered = {"type": "message", "role": "assistant", "content": [{"type": "text", "text": "7 m"}]}
    asked = {"messages": [ASKS], "mcp_servers": servers, "api_key": "hidden-3"}
    run = load_trace(cassette(tmp_path, exchange(asked, answered)))
    assert run.settings["recorded"] == {"mcp_servers": [{"name": "wiki", "url": "https://example.org"}]}
