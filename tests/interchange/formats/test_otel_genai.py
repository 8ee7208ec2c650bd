"""Spans of current and earlier GenAI conventions, and of OpenLLMetry, written by hand as each exporter does."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from agentnb import Run, load_trace, load_traces
from agentnb.core.messages import Thinking

FILES = Path(__file__).parent / "files" / "otel_genai"


def told(run: Run) -> list[Any]:
    """Return the rounds of a run: texts, and calls with their results."""
    calls = [
        [(record.call.name, record.call.arguments, record.result and record.result.text) for record in each.records]
        for each in run.rounds
    ]
    return [(one.text, each) for one, each in zip(run.rounds, calls, strict=True)]


@pytest.mark.req("R0.83")
def test_agent_inside_a_tool_of_another_agent_is_nested_run() -> None:
    outer, inner = load_traces(FILES / "agent-with-subagent.jsonl")
    assert told(outer) == [
        (
            "",
            [
                ("get_weather", {"location": "Paris"}, "rainy, 57°F"),
                ("get_weather", {"location": "Rome"}, "timed out"),
            ],
        ),
        ("Rainy in Paris; Rome is not known.", []),
    ]
    assert (outer.prompt, outer.system, outer.model, outer.agent) == (
        "Weather in Paris and Rome?",
        "Be brief.",
        "gpt-4o",
        "weather",
    )
    assert (inner.parent_id, inner.agent, inner.prompt, inner.text) == (outer.id, "looker", "Look at Paris.", "rainy, 57°F")
    assert load_trace(FILES / "agent-with-subagent.jsonl") == outer


def test_usage_times_errors_thinking_and_tools_are_read() -> None:
    outer, _ = load_traces(FILES / "agent-with-subagent.jsonl")
    first = outer.rounds[0]
    assert first.usage and (first.usage.input, first.usage.output, first.usage.cache_read, first.usage.reasoning) == (
        91,
        31,
        64,
        9,
    )
    assert (first.usage.cost, first.stop_reason, first.model_seconds) == (None, "tool_call", 1.0)
    assert first.reply and first.reply.parts[0] == Thinking("Two calls.")
    assert [(record.success, record.seconds, record.result and record.result.error_code) for record in first.records] == [
        (True, 0.3, None),
        (False, 0.7, "TimeoutError"),
    ]
    assert outer.started_at == datetime(2026, 3, 1, 12, 0, tzinfo=UTC) and outer.seconds == 3.0
    assert [(tool.name, tool.description) for tool in outer.tools] == [("get_weather", "Weather of a place.")]
    assert not outer.warnings


def test_numbered_attributes_are_sorted_numerically_without_duplicating_history() -> None:
    run = load_trace(FILES / "openllmetry-numbered.json")
    assert told(run) == [
        *[(f"Note {n}.", [("note", {"text": str(n)}, f"noted {n}")]) for n in range(1, 7)],
        ("All six are noted.", []),
    ]
    assert (run.system, run.prompt, len(run.messages)) == ("Take notes.", "Note the numbers from 1 to 6.", 1 + 7 + 6)
    assert [round_.usage and round_.usage.input for round_ in run.rounds] == [20, 40, 60, 80, 100, 120, None]


def test_messages_in_events_are_read_and_failed_calls_end_runs() -> None:
    run = load_trace(FILES / "message-events.json")
    assert told(run) == [("", [("add", {"a": 1, "b": 2}, "3")])]
    assert (run.system, run.prompt, run.status, run.error and run.error.message) == (
        "Add.",
        "1 and 2?",
        "failed",
        "HttpResponseError: 429",
    )


def span(number: int, attributes: dict[str, Any], **more: Any) -> dict[str, Any]:
    times = {"startTimeUnixNano": str(10**18 + number), "endTimeUnixNano": str(10**18 + number + 1)}
    return {"traceId": "ab", "spanId": f"s{number}", "name": "x", **times, "attributes": attributes, **more}


def read(tmp_path: Path, *documents: Any) -> list[Run]:
    path = tmp_path / "spans.json"
    path.write_text("\n".join(json.dumps(document) for document in documents), encoding="utf-8")
    return load_traces(path)


MODEL = {"gen_ai.operation.name": "chat", "gen_ai.request.model": "m"}


def said(role: str, text: str) -> dict[str, Any]:
    return {"role": role, "parts": [{"type": "text", "content": text}]}


def test_log_record_messages_belong_to_the_span_they_name(tmp_path: Path) -> None:
    body = {
        "gen_ai.input.messages": json.dumps([said("user", "Hi?")]),
        "gen_ai.output.messages": json.dumps([said("assistant", "Ho.")]),
    }
    attributes = [{"key": name, "value": {"stringValue": text}} for name, text in body.items()]
    record = {
        "eventName": "gen_ai.client.inference.operation.details",
        "traceId": "ab",
        "spanId": "s1",
        "attributes": attributes,
    }
    logs = {"resourceLogs": [{"scopeLogs": [{"logRecords": [record]}]}]}
    (run,) = read(tmp_path, {"resourceSpans": [{"scopeSpans": [{"spans": [span(1, MODEL)]}]}]}, logs)
    assert (run.prompt, run.text) == ("Hi?", "Ho.")


def test_tool_spans_become_calls_of_the_preceding_model_call(tmp_path: Path) -> None:
    tool = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "look", "gen_ai.tool.call.arguments": '{"x": 1}'}
    (run,) = read(tmp_path, [span(1, MODEL), span(3, {**tool, "gen_ai.tool.call.result": "dark"}), span(5, MODEL)])
    assert told(run) == [("", [("look", {"x": 1}, "dark")]), ("", [])]


def test_repeated_questions_are_kept_and_truncated_histories_add_new_messages(tmp_path: Path) -> None:
    histories = [["Go on?"], ["Go on?", "One.", "Go on?"], ["(summary)", "Two.", "Go on?"]]
    spans = []
    for number, (history, answer) in enumerate(zip(histories, ("One.", "Two.", "Three."), strict=True)):
        inputs = [said("assistant" if text in ("One.", "Two.") else "user", text) for text in history]
        spans.append(
            span(number, {**MODEL, "gen_ai.input.messages": inputs, "gen_ai.output.messages": [said("assistant", answer)]})
        )
    (run,) = read(tmp_path, spans[::-1])
    texts = [message.text for message in run.messages]
    assert texts == ["Go on?", "One.", "Go on?", "Two.", "(summary)", "Go on?", "Three."]


def test_spans_without_model_attributes_are_refused_naming_what_is_missing(tmp_path: Path) -> None:
    with pytest.raises(Exception, match="otel_genai: its spans have no gen_ai attributes"):
        read(tmp_path, [span(1, {"http.request.method": "GET"})])


def test_damaged_spans_are_omitted_and_reported(tmp_path: Path) -> None:
    good = span(
        1, {**MODEL, "gen_ai.input.messages": [said("user", "Hi?")], "gen_ai.output.messages": [said("assistant", "Ho.")]}
    )
    bad = {**span(1, {**MODEL, "gen_ai.input.messages": [{"role": 7, "parts": []}]}), "traceId": "cd"}
    path = tmp_path / "spans.jsonl"
    path.write_text(f"{json.dumps(good)}\n{json.dumps(bad)}\n[7, null]\n" + '{"traceId": "ab"', encoding="utf-8")
    runs = load_traces(path, strict=False)
    assert [run.text for run in runs] == ["Ho."]
    assert [problem.position for problem in runs.problems] == ["line 4", "trace cd"]


def test_opentelemetry_instrumentation_output_is_read_completely() -> None:
    run = load_trace(FILES / "openai-instrumentation.jsonl")
    calls = [("weather", {"city": "Paris"}, "rain"), ("weather", {"city": "Atlantis"}, "no city Atlantis")]
    assert told(run) == [("", calls), ("It rains in Paris; of Atlantis nothing is known.", [])]
    assert [record.result and record.result.error_code for record in run.rounds[0].records] == [None, "LookupError"]
    assert (run.prompt, run.system) == ("Does it rain in Paris and in Atlantis?", "You know the weather.")
    assert (run.agent, run.model, run.status, run.warnings) == ("forecaster", "gpt-4o", "completed", ())
    assert (run.usage.input, run.usage.output, run.usage.cache_read, run.usage.reasoning) == (140, 40, 32, 8)
    assert [round_.metadata for round_ in run.rounds] == [
        {"id": f"chatcmpl-{number}", "model": "gpt-4o-2024-08-06"} for number in range(2)
    ]


def test_span_without_an_id_has_no_children(tmp_path: Path) -> None:
    span = {
        "name": "chat m",
        "context": {"trace_id": "0x1", "span_id": ""},
        "kind": "SpanKind.CLIENT",
        "parent_id": None,
        "start_time": "2026-03-01T12:00:00.000000Z",
        "end_time": "2026-03-01T12:00:01.000000Z",
        "attributes": {"gen_ai.operation.name": "chat", "gen_ai.request.model": "m"},
    }
    other = {**span, "context": {"trace_id": "0x1", "span_id": "0x2"}}
    path = tmp_path / "spans.json"
    for spans, count in (([span], 1), ([span, other], 2)):
        path.write_text(json.dumps(spans))
        assert len(load_trace(path).rounds) == count
    agent = {**other, "name": "invoke_agent", "attributes": {"gen_ai.operation.name": "invoke_agent"}}
    within = {**span, "parent_id": "0x2"}
    outside = {**span, "context": {"trace_id": "0x1", "span_id": "0x3"}}
    path.write_text(json.dumps([agent, within, outside]))
    assert sorted(len(run.rounds) for run in load_traces(path)) == [1, 1]
