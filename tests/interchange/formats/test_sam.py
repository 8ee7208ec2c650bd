"""Conversations of SAM: its three forms are read and exported unchanged."""

from __future__ import annotations

import asyncio
import json
import re
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from agentnb import Agent, Run, ToolCall, examples, load_trace, load_traces, tool
from agentnb.core.messages import Image, Text, Thinking
from agentnb.interchange.exports.sam_export import conversation_export, pieces
from agentnb.models import ScriptedModel

FILES = Path(__file__).parent / "files" / "sam"


def rounds_of(run: Run) -> list[tuple[str, list[str], list[str]]]:
    return [
        (round_.text, [call.name for call in round_.calls], [result.call_id for result in round_.results])
        for round_ in run.rounds
    ]


@pytest.mark.req("R0.83")
def test_assistant_message_with_its_results_becomes_a_round() -> None:
    run = load_trace(FILES / "sam-conversation.json")
    assert rounds_of(run) == [
        ("", ["todo_operations"], ["call_a"]),
        ("I begin.", ["todo_operations", "write_note"], ["call_b", "call_c"]),
        ("", ["todo_operations"], ["call_d"]),
        ("Noted: gulls sleep on the water.", [], []),
    ]
    assert (run.id, run.model, run.stop_reason) == ("5D1F0B0E-7C2A-4E51-9B3D-0000000000A1", "local/small", None)
    record = run.rounds[1].records[1]
    assert (record.call.arguments, record.seconds, record.success) == ({"text": "Gulls sleep on the water."}, 0.9, True)


@pytest.mark.req("R0.83")
def test_bulk_export_preserves_pictures_thinking_errors_and_agents() -> None:
    bread, picture = load_traces(FILES / "sam-bulk.json")
    assert [run.origin.position for run in (bread, picture) if run.origin] == ["0", "1"]
    assert (bread.prompt, bread.text) == ("Do gulls steal bread?", "Yes.")
    assert [type(part) for part in picture.messages[0].parts] == [Text, Image]
    assert type(picture.rounds[0].reply.parts[0]) is Thinking
    assert [(record.call.name, record.success) for record in picture.rounds[0].records] == [
        ("find_bird", False),
        ("second_agent", True),
    ]
    assert "Stopped by the person." in picture.warnings and picture.status == "interrupted"


def test_bulk_export_missing_counted_conversations_is_reported(tmp_path: Path) -> None:
    file = tmp_path / "bulk.json"
    for count, problems in ((2, 1), (0, 0)):
        file.write_text(json.dumps({"formatVersion": "1.0", "conversationCount": count, "conversations": []}), "utf-8")
        runs = load_traces(file, strict=False)
        assert not runs and len(runs.problems) == problems


def test_simple_layout_without_calls_is_read_as_texts() -> None:
    run = load_trace(FILES / "sam-simple.json")
    assert (len(run.rounds), run.text) == (8, "Noted: gulls sleep on the water.")
    assert not any(round_.calls for round_ in run.rounds)


@pytest.mark.req("R0.83")
def test_imported_sam_file_is_exported_unchanged() -> None:
    file = json.loads((FILES / "sam-conversation.json").read_text("utf-8"))
    assert conversation_export(load_trace(FILES / "sam-conversation.json")) == file
    bread = json.loads((FILES / "sam-bulk.json").read_text("utf-8"))["conversations"][0]
    assert conversation_export(load_traces(FILES / "sam-bulk.json")[0]) == bread
    for name in examples.FILES:
        assert conversation_export(load_trace(name)) == json.loads(examples.path(name).read_text("utf-8"))


@tool
def paint(colour: str) -> str:
    """Paint."""
    if colour == "none":
        raise ValueError("no colour")
    return "painted"


def own_run() -> Run:
    calls = [ToolCall("paint", {"colour": "blue"}), ToolCall("paint", {"colour": "none"})]
    return asyncio.run(Agent(ScriptedModel([["I paint.", *calls], "Größer. 👀"]), tools=[paint], todos=True).run("Paint it."))


def content_of(run: Run) -> list[Any]:
    """Return the parts of a run that the form can represent, without ids and times."""
    return [
        run.prompt,
        run.model,
        [
            (
                round_.text,
                [(call.name, call.arguments) for call in round_.calls],
                [(r.text, r.is_error) for r in round_.results],
            )
            for round_ in run.rounds
        ],
        [[record.seconds for record in round_.records] for round_ in run.rounds],
    ]


@pytest.mark.req("R0.83")
def test_agentnb_run_round_trips_as_far_as_sam_allows(tmp_path: Path) -> None:
    run = own_run()
    path = tmp_path / "run.json"
    path.write_bytes(b"".join(pieces([run])))
    back = load_trace(path)
    assert content_of(back) == content_of(run)
    path.write_bytes(b"".join(pieces([run, back])))
    assert [content_of(one) for one in load_traces(path)] == [content_of(run)] * 2


@pytest.mark.req("R0.83")
def test_exported_run_is_valid_sam() -> None:
    export = conversation_export(own_run())
    conversation = export["conversation"]
    stamp = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ")
    assert stamp.fullmatch(export["exportedAt"]) and export["formatVersion"] == "1.0"
    assert UUID(conversation["id"]) and len({UUID(one["id"]) for one in conversation["messages"]}) == 5
    needed = {"id", "type", "content", "timestamp", "isFromUser", "isToolMessage", "isStreaming", "showReasoning"}
    for message in conversation["messages"]:
        assert needed <= message.keys() and stamp.fullmatch(message["timestamp"]) and None not in message.values()
        for call in message.get("toolCalls", ()):
            assert json.loads(call["function"]["arguments"]) in ({"colour": "blue"}, {"colour": "none"})
    assert conversation["settings"].keys() == {
        "selectedModel",
        "temperature",
        "topP",
        "contextWindowSize",
        "enableReasoning",
        "enableTools",
    }
    assert conversation_export(own_run())["conversation"]["messages"][0].keys() == conversation["messages"][0].keys()
    bulk = json.loads(b"".join(pieces([own_run(), own_run()])))
    assert bulk["conversationCount"] == 2 and all(one["formatVersion"] == "1.0" for one in bulk["conversations"])
