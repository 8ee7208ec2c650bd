"""States of OpenAI's Agents SDK: items of several agents, handoffs and pending approvals, from Python and JavaScript."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from trace_documents import FILES, document, lines

from agentnb import load_trace, load_traces, tables
from agentnb.core.usage import Usage
from agentnb.display.card.text import run_text
from agentnb.errors import TraceError
from agentnb.interchange.formats.openai_agents import WAITING

STATES = FILES / "openai_agents"


def item(kind: str, raw: dict[str, Any], agent: str = "Triage", **more: Any) -> dict[str, Any]:
    return {"type": kind, "agent": {"name": agent}, "raw_item": raw, **more}


def call(name: str, call_id: str) -> dict[str, Any]:
    return {"type": "function_call", "call_id": call_id, "name": name, "arguments": "{}"}


def output(call_id: str, text: str) -> dict[str, Any]:
    return {"type": "function_call_output", "call_id": call_id, "output": text}


def message(text: str) -> dict[str, Any]:
    return {"type": "message", "id": text, "role": "assistant", "content": [{"type": "output_text", "text": text}]}


def state(*items: Any, **more: Any) -> dict[str, Any]:
    return {
        "$schemaVersion": "1.0",
        "original_input": "Pay it back.",
        "current_agent": {"name": "Triage"},
        "generated_items": [*items],
        **more,
    }


HANDOFF = [
    item("handoff_call_item", call("transfer_to_refunds", "h1")),
    item("handoff_output_item", output("h1", '{"assistant": "Refunds"}'), source_agent={"name": "Triage"}),
    item("tool_call_item", call("refund", "c1"), "Refunds"),
    item("tool_call_output_item", output("c1", "paid"), "Refunds", output="paid"),
    item("message_output_item", message("It is paid."), "Refunds"),
]


def test_recorded_states_match_the_items_of_the_file() -> None:
    for path, rounds in ((STATES / "minimal_v1_17.json", 0), (STATES / "features_v1_13_programmatic_tool_calling.json", 1)):
        run = load_trace(path)
        told = json.loads(path.read_text(encoding="utf-8"))
        made = [item["raw_item"] for item in told["generated_items"]]
        calls = [record.call for round_ in run.rounds for record in round_.records]
        assert run.prompt == told["original_input"] and len(run.rounds) == rounds and run.agent == "compat-agent"
        assert [call.id for call in calls] == [raw["call_id"] for raw in made if raw["type"] in ("program", "function_call")]
        assert run.usage.input in (None, 0) and all(round_.usage == Usage() for round_ in run.rounds)  # no request was counted


def test_handoff_becomes_a_call_and_replies_name_their_agent(tmp_path: Path) -> None:
    usage = {
        "requests": 1,
        "input_tokens": 9,
        "output_tokens": 2,
        "total_tokens": 11,
        "input_tokens_details": [{"cached_tokens": 4}],
    }
    responses = [
        {"usage": usage, "output": [HANDOFF[0]["raw_item"]]},
        {"usage": {**usage, "input_tokens": 20}, "output": [HANDOFF[2]["raw_item"]]},
        {"usage": {**usage, "input_tokens": 30}, "output": [HANDOFF[4]["raw_item"]]},
    ]
    run = load_trace(document(tmp_path, state(*HANDOFF, model_responses=responses)))
    assert lines(run) == [
        "user: Pay it back.",
        "Triage: transfer_to_refunds {}",
        'tool: -> {"assistant": "Refunds"}',
        "Refunds: refund {}",
        "tool: -> paid",
        "Refunds: It is paid.",
    ]
    assert [(round_.usage.input, round_.usage.cache_read) for round_ in run.rounds] == [(9, 4), (20, 4), (30, 4)]
    assert run.status == "unknown" and run.agent == "Triage"


def test_run_paused_for_approval_names_the_pending_call(tmp_path: Path) -> None:
    raw = call("refund", "c1")
    waiting = item("tool_approval_item", raw)
    step = {"type": "next_step_interruption", "data": {"interruptions": [waiting]}}
    run = load_trace(document(tmp_path, state(item("tool_call_item", raw), waiting, current_step=step, max_turns=10)))
    assert (run.status, run.stop_reason) == ("stopped", "suspended")
    assert lines(run)[1:] == ["assistant: refund {}", f"tool: ! -> {WAITING}"]
    assert (tables.runs(run)["tool_errors"][0], tables.tool_calls(run)["success"].isna()[0]) == (0, True)
    assert "waiting for approval" in run_text(run) and tables.patterns(run)["tool_errors"].max() == 0
    assert any("waited for approval" in warning for warning in run.warnings) and run.settings["recorded"]["max_turns"] == 10


def test_javascript_format_and_input_items_are_read(tmp_path: Path) -> None:
    result = {"type": "function_call_result", "callId": "c1", "name": "refund", "output": {"type": "text", "text": "paid"}}
    asked = {"type": "function_call", "callId": "c1", "name": "refund", "arguments": '{"x": 1}', "status": "completed"}
    told = {
        "$schemaVersion": "1.0",
        "currentAgent": {"name": "Refunds"},
        "originalInput": [{"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Pay."}]}],
        "modelResponses": [
            {"usage": {"requests": 1, "inputTokens": 5, "outputTokens": 2, "totalTokens": 7}, "output": [asked]}
        ],
        "generatedItems": [
            {"type": "tool_call_item", "rawItem": asked, "agent": {"name": "Refunds"}},
            {"type": "tool_call_output_item", "rawItem": result, "agent": {"name": "Refunds"}, "output": "paid"},
        ],
    }
    run = load_trace(document(tmp_path, told))
    assert lines(run) == ["user: Pay.", 'assistant: refund {"x": 1}', "tool: -> paid"]
    assert (run.usage.input, run.usage.output, run.status) == (5, 2, "interrupted")


def test_items_dropped_by_a_handoff_come_from_the_session(tmp_path: Path) -> None:
    run = load_trace(document(tmp_path, state(HANDOFF[4], session_items=HANDOFF)))
    assert len(run.rounds) == 3


def test_damaged_parts_are_omitted_and_reported(tmp_path: Path) -> None:
    broken = [state(*HANDOFF), 7, state({"type": "tool_call_item"}), {"generated_items": []}]
    runs = load_traces(document(tmp_path, broken, "a.jsonl"), strict=False)
    assert [run.text for run in runs] == ["It is paid."]
    assert [problem.position for problem in runs.problems] == ["line 2", "line 3", "line 4"]
    with pytest.raises(TraceError, match="line 2"):
        load_traces(tmp_path / "a.jsonl")
