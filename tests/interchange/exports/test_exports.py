"""Exports are valid for other programs: requests for the SDKs, spans with sound ids and times, redacted text."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from anthropic.types import message_create_params as anthropic_params
from exported_runs import RUNS, broken_off, family, judged, tools_and_errors
from msgspec.structs import replace
from openai.types.chat import completion_create_params as openai_params
from pydantic import TypeAdapter
from run_builder import RunBuilder

from agentnb import Run, ToolCall, load_trace, save_trace
from agentnb.core.log import events as e
from agentnb.core.log import work_events as w
from agentnb.interchange.conversion.gaps import NO_PROMPT
from agentnb.interchange.conversion.run_writer import RunWriter
from agentnb.interchange.exports import (
    EXPORTS,
    anthropic_messages_export,
    openai_chat_export,
    openinference_export,
    otel_export,
)
from agentnb.interchange.exports.run_spans import MAX_INPUT_BYTES

FILES = Path(__file__).parents[1] / "formats" / "files"


def lines_of(runs: list[Run]) -> list[Any]:
    return [json.loads(line) for line in b"".join(otel_export.pieces(runs)).splitlines()]


def otel_spans(runs: list[Run]) -> list[dict[str, Any]]:
    """Return the spans of an export, with their attributes as a dict."""
    return otel_spans_of(lines_of(runs))


def otel_spans_of(lines: Iterable[Any]) -> list[dict[str, Any]]:
    found = [one for line in lines for one in line.get("resourceSpans", ())]
    spans = [span for one in found for scope in one["scopeSpans"] for span in scope["spans"]]
    return [{**span, "attributes": values(span["attributes"])} for span in spans]


def values(attributes: list[dict[str, Any]]) -> dict[str, Any]:
    return {attribute["key"]: next(iter(attribute["value"].values())) for attribute in attributes}


@pytest.mark.req("R0.83")
def test_exported_requests_are_valid_for_the_sdks(subtests: pytest.Subtests) -> None:
    chat = TypeAdapter(openai_params.CompletionCreateParamsNonStreaming)
    messages = TypeAdapter(anthropic_params.MessageCreateParamsNonStreaming)
    for name, make in RUNS.items():
        with subtests.test(name):
            request = openai_chat_export.request_of(make())
            chat.validate_python(request)
            answered = {message["tool_call_id"] for message in request["messages"] if message["role"] == "tool"}
            asked = {call["id"] for message in request["messages"] for call in message.get("tool_calls", ())}
            assert answered <= asked
            messages.validate_python(anthropic_messages_export.request_of(make()))


def test_thinking_is_exported_with_its_provider_signature() -> None:
    blocks = anthropic_messages_export.request_of(RUNS["thinking"]())["messages"][1]["content"]
    assert blocks[0] == {"type": "thinking", "thinking": "I weigh it.", "signature": "c2ln"}
    assert openai_chat_export.request_of(RUNS["thinking"]())["messages"][2]["reasoning_content"] == "I weigh it."


@pytest.mark.req("R0.83")
def test_spans_follow_the_opentelemetry_conventions() -> None:
    run = tools_and_errors()
    first = lines_of([run])[0]["resourceSpans"][0]
    assert first["schemaUrl"] == first["scopeSpans"][0]["schemaUrl"] == "https://opentelemetry.io/schemas/gen-ai/0.1.0"
    spans = otel_spans([run])
    assert [span["name"] for span in spans][:4] == [
        "invoke_agent agent",
        "chat script",
        "execute_tool todo_operations",
        "chat script",
    ]
    own, others = spans[0], spans[1:]
    assert own["parentSpanId"] == "" and {one["parentSpanId"] for one in others} == {own["spanId"]}
    assert {len(span["traceId"]) for span in spans} == {32} and {len(span["spanId"]) for span in spans} == {16}
    assert len({span["spanId"] for span in spans}) == len(spans)
    for one in spans:
        assert one["attributes"]["gen_ai.operation.name"] == one["name"].split()[0]
        assert int(own["startTimeUnixNano"]) <= int(one["startTimeUnixNano"]) <= int(one["endTimeUnixNano"])
    failed = [span for span in spans if span["status"].get("code") == 2]
    assert [one["attributes"]["error.type"] for one in failed] == ["invalid_arguments", "tool_error"]
    assert lines_of([run]) == lines_of([run])


def names_of(spans: Iterable[dict[str, Any]]) -> dict[tuple[str, int], set[str]]:
    """Return the attributes that the conventions define for spans of each operation and kind."""
    found: dict[tuple[str, int], set[str]] = {}
    for span in spans:
        names = {name for name in span["attributes"] if name.startswith(("gen_ai.", "error."))}
        found.setdefault((span["attributes"]["gen_ai.operation.name"], span["kind"]), set()).update(names)
    return found


def test_span_attributes_match_the_opentelemetry_instrumentation() -> None:
    path = FILES / "otel_genai" / "openai-instrumentation.jsonl"
    theirs = names_of(otel_spans_of(json.loads(line) for line in path.read_text().splitlines()))
    ours = names_of(otel_spans([load_trace(path)]))
    missing = {operation: names - ours[operation] for operation, names in theirs.items()}
    assert missing == {
        ("invoke_agent", 1): set(),
        ("chat", 3): {"gen_ai.tool.definitions"},  # our attributes are on the agent, once
        ("execute_tool", 1): set(),
    }


def test_model_call_after_a_compaction_is_marked() -> None:
    writer = RunWriter(e.Origin("by_hand"))
    writer.say("Go.")
    writer.reply("One.")
    writer.compact("It went.")
    writer.reply("Two.")
    calls = [span for span in otel_spans([writer.finish()]) if span["name"].startswith("chat")]
    assert [call["attributes"].get("gen_ai.conversation.compacted") for call in calls] == [None, True]


def test_findings_become_evaluation_results_of_their_model_call() -> None:
    spans = {span["spanId"]: span["name"] for span in otel_spans([judged()])}
    records = lines_of([judged()])[1]["resourceLogs"][0]["scopeLogs"][0]["logRecords"]
    told = [
        (record["eventName"], values(record["attributes"])["gen_ai.evaluation.name"], spans[record["spanId"]])
        for record in records
    ]
    assert told == [("gen_ai.evaluation.result", rule, "chat hand") for rule in ("only_blocked_calls", "no_progress")]


def test_plans_have_spans_that_enclose_their_calls() -> None:
    spans = {span["name"]: span for span in otel_spans([judged()])}
    assert spans["chat small"]["parentSpanId"] == spans["plan agent"]["spanId"]


def test_canned_answer_is_not_exported_as_a_model_call() -> None:
    built = RunBuilder().add(w.ModelCalled, operation="clarify_blank")
    assert len(otel_spans([built.run])) == 1
    assert len(otel_spans([built.add(w.ModelCalled, operation="judge").run])) == 2


def test_nested_runs_join_the_trace_of_their_root_run() -> None:
    for runs in (family(), family()[::-1]):
        assert len({span["traceId"] for span in otel_spans(runs)}) == 1
    roots = [span for span in otel_spans(family()) if not span["parentSpanId"]]
    assert [one["attributes"]["agentnb.run.id"] for one in roots] == ["top"]


def test_unknown_times_are_ordered_and_marked() -> None:
    spans = otel_spans([RUNS["authors"]()])
    assert all(span["attributes"]["agentnb.times"] in ("unknown", "only the duration") for span in spans)
    chats = [int(span["startTimeUnixNano"]) for span in spans if span["name"].startswith("chat")]
    assert chats == sorted(chats) and len(set(chats)) == 3


def test_long_conversation_is_not_repeated_in_every_span() -> None:
    builder = RunBuilder("x" * 1000)
    for number in range(60):
        builder.round(f"{number} " + "y" * 10_000, reason="said")
    run = builder.add(e.RunFinished, status="completed", stop_reason="natural").run
    for form in (otel_export, openinference_export):
        assert len(b"".join(form.pieces([run]))) < 10 * MAX_INPUT_BYTES + 60 * 30_000  # repeated in full, it would be 20 MB
    offsets = [span["attributes"].get("agentnb.input.offset") for span in otel_spans([run])][1:]
    assert offsets[0] == "0" and offsets[-1] == "59"


def test_long_conversation_with_calls_round_trips(tmp_path: Path) -> None:
    writer = RunWriter(e.Origin("by_hand"), model="m")
    writer.system(" Be brief.\n")
    writer.say("Go.")
    for number in range(6):
        writer.reply(f"{number}", [ToolCall("look", {"at": number}, f"c{number}")])
        writer.result(f"c{number}", "y" * MAX_INPUT_BYTES)
    writer.reply("Done.")
    run = writer.finish()
    for form in ("otel", "openinference"):
        back = load_trace(save_trace(run, tmp_path / "run", form))
        assert [(message.role, message.text, message.calls) for message in back.messages] == [
            (message.role, message.text, message.calls) for message in run.messages
        ]
        assert back.system == run.system


@pytest.mark.req("R0.83")
def test_redacted_text_appears_in_no_export(tmp_path: Path, subtests: pytest.Subtests) -> None:
    run = RunBuilder("Call 0151-2345 for Ms Ögmundsdóttir.").round("I call 0151-2345.").run
    run.apply(e.RunFinished(seq=len(run.events), at=None, run_id=run.id, status="completed", stop_reason="natural"))
    for form in [*EXPORTS, "agentnb", "html"]:
        with subtests.test(form):
            path = save_trace(run, tmp_path / "run", form, redact=[r"\d{4}-\d{4}", "Ögmundsdóttir"])
            data = path.read_bytes() if form != "parquet" else _events(path)
            assert b"0151-2345" not in data and "Ögmund".encode() not in data and b"mundsd" not in data
            assert b"[redacted]" in data


def test_exports_omit_placeholders_for_missing_prompts(subtests: pytest.Subtests) -> None:
    for form in ("sam", "openai_chat", "anthropic_messages", "otel", "openinference"):
        with subtests.test(form):
            lacking, asked = RunWriter(e.Origin("by_hand")), RunWriter(e.Origin("by_hand"))
            asked.say(NO_PROMPT)
            counts = []
            for writer in (lacking, asked):
                writer.reply("Done.")
                counts.append(b"".join(EXPORTS[form].pieces([writer.finish()])).count(NO_PROMPT.encode()))
            assert counts[0] == (form == "sam") and counts[1] > counts[0]  # in SAM's form, the title


def test_text_streamed_before_the_process_died_is_exported(subtests: pytest.Subtests) -> None:
    for form in ("sam", "openai_chat", "anthropic_messages", "otel", "openinference"):
        with subtests.test(form):
            assert b"I have seen" in b"".join(EXPORTS[form].pieces([broken_off()]))


def _events(path: Path) -> bytes:
    import pyarrow.parquet as pq

    return "\n".join(pq.read_table(path).column("event").to_pylist()).encode()


def test_durations_too_long_for_a_span_are_capped() -> None:
    events = tools_and_errors().events
    endless = [replace(event, seconds=1e308) if isinstance(event, e.ToolFinished) else event for event in events]
    tools = [span for span in otel_spans([Run.from_events(endless)]) if span["name"].startswith("execute_tool")]
    lengths = {int(span["endTimeUnixNano"]) - int(span["startTimeUnixNano"]) for span in tools}
    assert lengths == {10**19}
